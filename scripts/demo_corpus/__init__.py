"""A grammar of German and English that writes parallel sentences with exact word alignments.

A sentence is first drawn as a meaning (who does what, when and where), and that one meaning is then
spoken twice, by the German and by the English half of the grammar. Both halves mark every word with
the part of the meaning that it expresses, so the alignment is known, not estimated.
"""
