"""The ids that mean the same in every vocabulary."""

PAD = 0  # fills rows of a batch; never a real token
BOS = 1  # what the decoder reads first
EOS = 2  # ends every source and every target
UNK = 3  # a piece the vocabulary lacks; byte-level vocabularies lack none
NAMES = ("<pad>", "<s>", "</s>", "<unk>")  # by id
NEVER_GENERATED = (PAD, BOS, UNK)  # no text contains them
