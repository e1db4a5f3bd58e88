#!/bin/sh
# Fails where a file system is fuller than 90 %.
df --output=pcent,target -x tmpfs | awk 'NR > 1 && $1 + 0 > 90 { print $2; bad = 1 } END { exit bad }'
