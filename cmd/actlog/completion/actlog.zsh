#compdef actlog
# Completion of actlog for zsh: source <(actlog completion zsh)

_actlog() {
    local line
    local -a candidates
    for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            _files
            return
        fi
        [[ -n $line ]] && candidates+=("${${line//:/\\:}/$'\t'/:}")
    done
    _describe actlog candidates
}
if [[ $funcstack[1] == _actlog ]]; then
    _actlog "$@"
else
    compdef _actlog actlog
fi
