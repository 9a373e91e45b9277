"""The special symbols, whose ids are the same in every vocabulary."""

PAD = 0  # fills the rows of a batch; never a real token
BOS = 1  # the first token that the decoder reads
EOS = 2  # ends every source and every target
UNK = 3  # a piece that the vocabulary lacks; never needed with byte-level vocabularies
NAMES = ("<pad>", "<s>", "</s>", "<unk>")  # by id
NEVER_GENERATED = (PAD, BOS, UNK)  # symbols that no translation contains
