# Completes the presets of `seq2seq train`: attn=gqa, and attn=mha,gqa. Bash takes `=` for the end of a word, so what
# stands before it is left out of the answers.
_seq2seq_presets() {
  local typed="${COMP_LINE:0:COMP_POINT}"
  typed="${typed##* }"
  local values="${typed#*=}"
  if [[ "$typed" != *=* ]]; then
    compgen -W "PRESETS" -- "$typed"
  else
    local before="${values%"${values##*,}"}"
    compgen -W "PRESETS" -- "${typed%%=*}=${values##*,}" | sed "s/^[^=]*=/$before/"
  fi
}

# `seq2seq compare` takes files as well: without `=`, bash completes their names.
_seq2seq_presets_of_comparison() {
  local typed="${COMP_LINE:0:COMP_POINT}"
  [[ "${typed##* }" != *=* ]] || _seq2seq_presets
}
