#!/usr/bin/env bash
# Runs one verb on the checkout: `run.sh validate` or `run.sh plan`. The checkout is data: nothing in it is run.
#
#   BUNSEN          the program, from install.sh
#   BUNSEN_FOLDER   the folder of the checkout that has pools/
#   BUNSEN_BASE     for plan: a revision, or A...B; empty: what the job of the pull request says
#   BUNSEN_KEY      for plan: the name of this comment, if the pull request has several
#   BUNSEN_NODES    for plan: how many nodes the pools have, such as worker=40/4,infra=8
set -euo pipefail

case $1 in
validate)
  exec "$BUNSEN" validate --output github -- "${BUNSEN_FOLDER:-.}"
  ;;
plan)
  set -- --path "${BUNSEN_FOLDER:-.}" --key "${BUNSEN_KEY:-}" --nodes "${BUNSEN_NODES:-}"
  case ${BUNSEN_BASE:-} in
  '') ;;
  *...*) set -- "$@" -- "$BUNSEN_BASE" ;;
  *) set -- "$@" -- "$BUNSEN_BASE" HEAD ;;
  esac
  exec "$BUNSEN" comment "$@"
  ;;
*)
  printf '::error title=bunsen::the input run is %s, and not validate, plan or install\n' \
    "$(printf %s "$1" | tr -cd 'A-Za-z0-9_-')" >&2
  exit 2
  ;;
esac
