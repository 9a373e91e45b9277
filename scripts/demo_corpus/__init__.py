"""A grammar of German and English that writes parallel sentences with exact word alignments.

A sentence is first drawn as a meaning (who does what, when and where), which the German and the
English half of the grammar then each put into words. Both halves mark every word with the part of
the meaning that it expresses, so the alignment is known, not estimated.
"""
