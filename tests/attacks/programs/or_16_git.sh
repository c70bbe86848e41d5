# Version control: commits, branches, merges, conflicts, rebase, stash, tags, bisect, clones, submodule, bundle, collecting.
set -euo pipefail
is() { [ "$(cat)" = "$1" ]; }
has() { grep -- "$1" > /dev/null; }
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=init.defaultBranch GIT_CONFIG_VALUE_0=main
export GIT_CONFIG_KEY_1=protocol.file.allow GIT_CONFIG_VALUE_1=always
cd /tmp
git init -q one && cd one
for n in $(seq 30); do echo "$n" >> file; git add file; git commit -qm "commit $n"; done
git switch -qc side HEAD~5 && echo side > other && git add . && git commit -qm side
git switch -q main && git merge -q side -m merged && [ "$(git log --oneline | wc -l)" = 32 ]
git switch -qc clash HEAD~1 && echo clash >> file && git commit -qam clash
git switch -q main && echo ours >> file && git commit -qam ours
if git merge -q clash > /dev/null 2>&1; then exit 1; fi
git checkout -q --theirs file && git commit -qam resolved
git switch -qc topic HEAD~2 && echo t > topic && git add . && git commit -qm topic && git rebase -q main
echo dirty >> file && git stash -q && git diff --quiet && git stash pop -q && git checkout -q file
git tag -a v1 -m one && git describe | has v1
git bisect start -q HEAD HEAD~3 > /dev/null && git bisect run sh -c 'test ! -e topic' > /dev/null && git bisect reset -q
git gc -q --aggressive && git fsck --strict > /dev/null 2>&1 && git repack -qad
git clone -q . ../two && git -C ../two log -1 --format=%s | is topic
git bundle create -q ../all.bundle --all && git clone -q ../all.bundle ../three
git worktree add -q ../tree main && [ -f ../tree/file ]
git init -q ../super && cd ../super && git submodule add -q ../one part > /dev/null && git commit -qm sub && [ -f part/file ]
cd ../two && echo pushed > new && git add . && git commit -qm pushed && git push -q origin HEAD:pushed
git -C ../one log -S ours --oneline | has ours
git -C ../one archive --format=tar main | tar t | has '^file$'
git -C ../one blame file | wc -l | is 31
echo done
