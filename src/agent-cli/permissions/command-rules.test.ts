import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { allowsCommand, forbidsCommand } from './command-rules.ts';
import { parseShell } from './shell-command.ts';

/** Ways to run `touch made` in `sh`. */
const SPELLINGS: readonly string[] = [
  'touch made',
  'touch\tmade',
  '\\touch made',
  "t'ou'ch made",
  't"o"uch made',
  '"touch" made',
  '(touch made)',
  '{ touch made; }',
  'echo $(touch made)',
  'echo "$(touch made)"',
  'echo `touch made`',
  'echo "`touch made`"',
  'echo `echo \\`touch made\\``',
  'A=1 touch made',
  'A=$(touch made)',
  'command touch made',
  'env touch made',
  'env -i PATH="$PATH" touch made',
  'env -u HOME A=1 touch made',
  'env A#=1 touch made',
  'env =1 touch made',
  "env -S 'touch made'",
  "env --split-string='touch made'",
  'nice touch made',
  'nice -n 5 touch made',
  'nohup touch made',
  'timeout 5 touch made',
  'timeout -k 1 5 touch made',
  'exec touch made',
  'eval touch made',
  "eval 'tou''ch made'",
  "sh -c 'touch made'",
  "sh -ec 'touch made'",
  "/bin/sh -c 'touch made'",
  'sh -c \'sh -c "touch made"\'',
  "env sh -c 'touch made'",
  'echo made | xargs touch',
  'echo made | xargs -n 1 touch',
  "echo 'touch made' | sh",
  "printf 'touch made' | sh -s",
  'sh <<EOF\ntouch made\nEOF',
  'sh /dev/stdin <<EOF\ntouch made\nEOF',
  "printf 'touch made' | sh -s x",
  "printf 'touch made' | sh -o errexit",
  "eval env --split-string='touch made'",
  "env -S 'touch\\_made'",
  'echo touch made | xargs env',
  "echo touch | xargs -I% sh -c '% made'",
  "echo touch made | xargs -I {} sh -c '{}'",
  "find /usr/bin /bin -name touch -exec {} made ';'",
  'flock . -c "touch made"',
  'if true; then touch made; fi',
  'if touch made; then :; fi',
  'if false; then :; elif touch made; then :; fi',
  'while touch made; do break; done',
  'until touch made; do :; done',
  'for x in 1; do touch made; done',
  'for x in touch; do $x made; done',
  'for x in $(touch made); do :; done',
  'case a in a) touch made;; esac',
  'case a in (b) :;; *) touch made; esac',
  'case $(touch made) in *) ;; esac',
  '! touch made',
  'true && touch made',
  'false || touch made',
  'true; touch made',
  'true | touch made',
  'true & touch made; wait',
  'true\ntouch made',
  '# comment\ntouch made',
  'tou\\\nch made',
  'touch \\\nmade',
  'true;\\\ntouch made',
  '/usr/bin/touch made',
  '/usr/bin/../bin/touch made',
  'x=touch; $x made',
  'x=ouch; t$x made',
  '$(echo touch) made',
  '${x:-touch} made',
  'echo ${x:-$(touch made)}',
  'echo $(( $(touch made; echo 1) + 1 ))',
  'f() { touch made; }; f',
  'f() (touch made); f',
  'alias t=touch\nt made',
  "trap 'touch made' EXIT",
  '>/dev/null touch made',
  'touch made >/dev/null 2>&1',
  '2>/dev/null touch made',
  'cat <<EOF\n$(touch made)\nEOF',
  'cat <<EOF\n`touch made`\nEOF',
  "cat <<'EOF' >/dev/null\nx\nEOF\ntouch made",
  'cat <<-EOF >/dev/null\n\tx\n\tEOF\ntouch made',
  "find . -maxdepth 0 -exec touch made ';'",
  '/usr/bin/tou?h made',
  ': > made; touch made',
  'cd . && (cd . && { touch made; })',
];

/**
 * Only bash understands these. They are not run here, but a deny rule must cover them: `sh` may be
 * bash.
 */
const OF_BASH: readonly string[] = [
  "$'touch' made",
  "$'\\x74ouch' made",
  '$"touch" made',
  '{touch,made}',
  'cat <(touch made)',
  'true |& touch made',
  'function f { touch made; }; f',
  'coproc touch made',
  'time touch made',
  'builtin command touch made',
  '[[ a ]] && touch made',
  '((1)) && touch made',
  'for ((i=0;i<1;i++)); do touch made; done',
  'bash <<< "touch made"',
  '${ touch made; }',
  "x='$(touch made)'; echo ${x@P}",
  'sudo -n touch made',
  'doas touch made',
  'bash -c "touch made"',
  "bash -lc 'touch made'",
  'busybox touch made',
  '{fd}>/dev/null touch made',
  '{fd}</dev/null touch made',
  '{fd}>&1 touch made',
  "test -v 'a[$(touch made)]'",
  "printf -v 'a[`touch made`]' x",
  "x='a[$(touch made)]'; echo $((x))",
  'hash -p /usr/bin/touch t; t made',
  "fish -c 'touch made'",
];

/** Names in another case, for file systems that ignore case: macOS, and such folders on Linux. */
const WITHOUT_CASE: readonly string[] = [
  'TOUCH made',
  '/usr/bin/Touch made',
  'ENV touch made',
  "SH -c 'touch made'",
  'Sudo Touch made',
];

describe('a deny rule for touch', () => {
  test.each(SPELLINGS)('%j runs touch and is covered', (command) => {
    const folder = mkdtempSync(join(tmpdir(), 'duolane-spelling-'));
    try {
      spawnSync('/bin/sh', ['-c', command], { cwd: folder, stdio: 'ignore' });
      expect(existsSync(join(folder, 'made'))).toBe(true);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    expect(forbidsCommand('touch *', command)).toBe(true);
    expect(forbidsCommand('touch:*', command)).toBe(true);
  });

  test.each(OF_BASH)('%j is covered', (command) => {
    expect(forbidsCommand('touch *', command)).toBe(true);
  });

  test.each(WITHOUT_CASE)('%j is covered', (command) => {
    expect(forbidsCommand('touch *', command)).toBe(true);
    expect(forbidsCommand('Touch *', command)).toBe(true);
  });

  test.each([
    "touch 'made",
    'touch "made',
    'if touch made',
    '(touch made',
    'a=(touch made)',
    '`touch made',
    '$(touch made',
    'cat <<EOF\ntouch',
    '}',
    'fi',
    ';;',
    'a )',
    '\\',
    '('.repeat(100_000),
    '${x:-'.repeat(50_000),
    '$(('.repeat(50_000),
    '`\\`'.repeat(50_000),
    '{'.repeat(200_000),
    'x'.repeat(300_000),
    'a\uFFFFb',
    'env -a '.repeat(30_000),
    `env ${'env '.repeat(60)} ${"'env sh -c x' ".repeat(15_000)}`,
    'eval '.repeat(50_000),
  ])('covers a text that cannot be parsed, or not in bounded time', (command) => {
    expect(forbidsCommand('touch *', command)).toBe(true);
  });

  test.each([
    'ls',
    'echo touch made',
    'echo "touch made"',
    "grep -r 'touch (x)' src | sort | head -n 5 > out.txt 2>&1",
    'git commit -m "touch made"',
    'for f in *.ts; do wc -l "$f"; done',
    'if [ -f a ]; then cat a; else echo none; fi',
    'case "$1" in start) npm start;; stop|halt) npm stop;; *) echo usage;; esac',
    "cat > a.txt <<'EOF'\ntouch made\n$(touch made)\nEOF",
    'A=1 B="x y" npm test',
    'echo $((2 * (3 + 4)))',
    'sudo -u root ls "$HOME"',
    'timeout 10 grep -c x "$FILE"',
    'sh build.sh && ./run.sh',
    "sh -c 'ls; pwd'",
    'retouch made',
    'npm run touch-up',
    'while read -r line; do echo "$line"; done < list.txt',
    'f() { ls; }; f',
    'cd src && { ls; } | tee log',
    'test $x = 1 && echo ${x:-none} ${#x} ${x%.ts}',
    'echo {a,b}.ts a{1..3}',
    "awk '{ print $1 }' a.txt # touch made",
    '[ "$(cat a)" = b ] && echo {x} > out',
  ])('does not cover %j', (command) => {
    expect(parseShell(command)).toBeDefined();
    expect(forbidsCommand('touch *', command)).toBe(false);
  });

  test.each([
    ['git push *', 'git push --force', true],
    ['git push *', 'git "push" --force', true],
    ['git push *', 'git $X --force', true],
    ['git push *', 'git log', false],
    ['rm -rf *', 'rm -r$F x', true],
    ['rm foo', 'rm fo*', true],
    ['rm foo', 'rm bar*', false],
    ['* --force', 'git push --force', true],
  ])(
    'an argument that only the shell knows may be the forbidden one: %s, %s',
    (rule, command, expected) => {
      expect(forbidsCommand(rule, command)).toBe(expected);
    },
  );
});

describe('an allow rule for git', () => {
  test.each([
    'git',
    'git log',
    'git\tlog',
    'git "log" --oneline',
    'git log && git status',
    'git log | git apply',
    'git log; git status & git diff\ngit show',
    "git commit -m 'a; rm x'",
    'git log $BRANCH',
    'git log -- *.ts',
  ])('covers %j', (command) => {
    expect(allowsCommand('git *', command)).toBe(true);
    expect(allowsCommand('git:*', command)).toBe(true);
  });

  test.each([
    'gitk',
    'git log; rm x',
    'git log && rm x',
    'git log || rm x',
    'git log | sh',
    'git log & rm x',
    'git log\nrm x',
    'git log $(rm x)',
    'git log "$(rm x)"',
    'git log `rm x`',
    'git log > /etc/passwd',
    'git log >> x',
    'git log < x',
    'git log <(rm x)',
    '(git log)',
    '{ git log; }',
    'if git log; then git status; fi',
    'git() { rm x; }; git',
    'GIT_SSH_COMMAND=rm git fetch',
    'PATH=. git log',
    '"git log" x',
    "'git x'",
    'git\\ log',
    './git log',
    '/tmp/git log',
    '$GIT log',
    'g*t log',
    'env git log',
    "git log 'x",
    'git log \\',
    '',
    ';',
  ])('does not cover %j', (command) => {
    expect(allowsCommand('git *', command)).toBe(false);
  });

  test.each([
    ['test *', "test -v 'a[$(rm x)]'"],
    ['printf *', "printf -v 'a[$(rm x)]' y"],
    ['printf *', "printf -v 'a['\\`'rm x'\\`']' y"],
    ['read *', 'read "a[\\$(rm x)]"'],
  ])('the rule %s does not allow %s, whose array index bash runs', (rule, command) => {
    expect(allowsCommand(rule, command)).toBe(false);
  });

  test('a rule with exactly the text of a command covers it', () => {
    for (const command of ['echo $(date)', '(ls)', 'ls > out'])
      expect(allowsCommand(command, command)).toBe(true);
  });
});
