#!/usr/bin/env bash
# generate.sh writes the corpus anew with the real programs: the encrypted files in corpus/, and what `sops decrypt`
# makes of each in corpus/*.plain. The keys in keys.txt are public, and for these tests only.
#   go install github.com/getsops/sops/v3/cmd/sops@v3.13.3 && go install filippo.io/age/cmd/age-keygen@v1.3.1
# SOPS names another program with the same arguments.
set -eu
cd "$(dirname "$0")"
sops=${SOPS:-sops}
[ -f keys.txt ] || for _ in 1 2 3; do age-keygen 2>/dev/null | grep AGE-SECRET-KEY >>keys.txt; done
[ -f pq.txt ] || age-keygen -pq 2>/dev/null | grep AGE-SECRET-KEY >pq.txt
mapfile -t to < <(while read -r key; do echo "$key" | age-keygen -y; done <keys.txt)
pq=$(age-keygen -y pq.txt)
export SOPS_AGE_KEY_FILE=$PWD/all.txt HOME=/nonexistent
cat keys.txt pq.txt >all.txt
rm -rf corpus && mkdir corpus
n=0
# make NAME EXTENSION TYPE ARGUMENTS… encrypts plain/NAME.
make() {
  local name=$1 ext=$2 type=$3; shift 3
  n=$((n + 1)); local out; out=corpus/$(printf %02d $n)-$type.$ext
  "$sops" --config /dev/null encrypt --input-type "$type" --output-type "$type" "$@" "plain/$name" >"$out"
  "$sops" --config /dev/null decrypt --input-type "$type" --output-type "$type" "$out" >"$out.plain"
}
a=(--age "${to[0]}"); ab=(--age "${to[0]},${to[1]}")
for f in app.yaml comments.yaml types.yaml multi.yaml nested.yaml text.yaml; do make $f yaml yaml "${a[@]}"; done
for f in app.json types.json nested.json; do make $f json json "${a[@]}"; done
for f in app.env comments.env; do make $f env dotenv "${a[@]}"; done
for f in app.yaml random.bin text.txt; do make $f bin binary "${a[@]}"; done
for f in app.yaml types.yaml; do
  make $f yaml yaml "${ab[@]}"
  make $f yaml yaml "${a[@]}" --encrypted-regex '^(pass|token)'
  make $f yaml yaml "${a[@]}" --unencrypted-regex '^(user|port)'
  make $f yaml yaml "${a[@]}" --unencrypted-suffix _clear
  make $f yaml yaml "${a[@]}" --encrypted-suffix word
done
make app.json json json "${a[@]}" --encrypted-regex '^pass'
make app.env env dotenv "${a[@]}" --encrypted-regex PASS
make app.yaml yaml yaml --age "$pq"
make app.env env dotenv "${ab[@]}"
make text.txt bin binary "${ab[@]}"
# configured NAME EXTENSION TYPE encrypts plain/NAME by the creation rules in rules.yaml.
configured() {
  n=$((n + 1)); local out; out=corpus/$(printf %02d $n)-$3.$2
  "$sops" --config rules.yaml encrypt --input-type "$3" --output-type "$3" "plain/$1" >"$out"
  "$sops" decrypt --input-type "$3" --output-type "$3" "$out" >"$out.plain"
}
printf 'creation_rules:\n- age: %s\n  encrypted_regex: ^pass\n  mac_only_encrypted: true\n' "${to[0]}" >rules.yaml
configured app.yaml yaml yaml
configured types.yaml yaml yaml
configured app.json json json
for rule in 'encrypted_comment_regex: secret' 'unencrypted_comment_regex: plain text'; do
  printf 'creation_rules:\n- age: %s\n  %s\n' "${to[0]}" "$rule" >rules.yaml
  configured comments.yaml yaml yaml
done
# Key groups.
for threshold in 2 3; do
  printf 'creation_rules:\n- shamir_threshold: %s\n  key_groups:\n' $threshold >rules.yaml
  for t in "${to[@]}"; do printf '  - age:\n    - %s\n' "$t" >>rules.yaml; done
  configured app.yaml yaml yaml
  configured app.json json json
  configured app.env env dotenv
  configured text.txt bin binary
done
rm -f rules.yaml all.txt
