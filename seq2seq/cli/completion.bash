# Completes the presets of `seq2seq train`: attn=gqa. Bash takes `=` for the end of a word, so what stands before it
# is left out of the answers.
_seq2seq_presets() {
  local typed="${COMP_LINE:0:COMP_POINT}"
  typed="${typed##* }"
  compgen -W "PRESETS" -- "$typed" | if [[ "$typed" == *=* ]]; then sed 's/^[^=]*=//'; else cat; fi
}
