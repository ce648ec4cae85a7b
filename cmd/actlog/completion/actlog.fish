# Completion of actlog for fish: actlog completion fish | source

function __actlog_complete
    set -l words (commandline -opc)
    set -l candidates ($words[1] complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
    if test "$candidates[1]" = :files
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $candidates
    end
end
complete -c actlog -f -a '(__actlog_complete)'
