import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { send } from './process-tree.ts';

/**
 * Children end with this process, however it ends: `watch` their group when they start, `unwatch`
 * it when all of it is gone. `process.exit` sends SIGTERM; a shell that waits for the end of a pipe
 * from us sees every other death too, kill -9 included, and follows up with SIGKILL.
 *
 * One shell serves all children and is gone when the last of them is; it takes 1.7 MB, where a Node
 * would take 40. It stands outside of their groups, because a shell inside would have to start the
 * child itself: it would hide why a start failed, and dash drops variables such as `a-b`. It starts
 * after the first child, so as not to delay it: for some 2 ms that child is not watched yet.
 */
export function watch(group: number): void {
  if (groups.size === 0) process.on('exit', endAll);
  groups.add(group);
  sendGroups();
}

export function unwatch(group: number): void {
  if (!groups.delete(group)) return;
  if (groups.size === 0) process.off('exit', endAll);
  sendGroups();
}

const groups = new Set<number>();
let shell: ChildProcess | undefined;
let warned = false;

/** The whole list each time: the last line that the shell has read is the truth. */
function sendGroups(): void {
  if (process.platform === 'win32') return;
  if (groups.size === 0) {
    shell?.stdin?.end('\n');
    shell = undefined;
    return;
  }
  shell ??= start();
  shell?.stdin?.write(`${[...groups].join(' ')}\n`);
}

function start(): ChildProcess | undefined {
  let child: ChildProcess;
  try {
    child = spawnShell();
  } catch (error) {
    warn(error);
    return undefined;
  }
  const forget = (): void => {
    if (shell === child) shell = undefined; // the next change of the list starts another
  };
  child.stdin?.on('error', forget);
  child.on('exit', forget);
  child.on('error', (error) => {
    forget();
    warn(error);
  });
  child.unref();
  (child.stdin as Socket | null)?.unref();
  return child;
}

const spawnShell = (): ChildProcess =>
  spawn('/bin/sh', ['-c', SCRIPT, 'duolane-watchdog'], {
    cwd: '/',
    env: { PATH: '/usr/bin:/bin' },
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });

function warn(error: unknown): void {
  if (warned) return;
  warned = true;
  const message = 'no watchdog: a kill -9 of this process may leave its children behind';
  process.emitWarning(message, { code: 'DUOLANE_WATCHDOG', detail: String(error) });
}

function endAll(): void {
  for (const group of groups) {
    if (process.platform === 'win32') send(group, 'SIGKILL');
    else send(-group, shell?.pid === undefined ? 'SIGKILL' : 'SIGTERM');
  }
}

/**
 * Reads lists of groups until the pipe ends. Then, for the last one: SIGTERM, a second, SIGKILL, to
 * the groups and to descendants that left them (`pid:start`, found through /proc where there is
 * one). A group that is gone by the first signal is never signalled again, and a stray only while
 * its start time is the same: a reused number is safe.
 */
const SCRIPT = `
trap '' HUP INT TERM
groups=
while read -r line; do groups=$line; done
[ "$groups" ] || exit 0
strays=' '

look() {
  more=1
  while [ "$more" ]; do
    more=
    for dir in /proc/[0-9]*; do
      pid=\${dir#/proc/}
      case $strays in *" $pid:"*) continue ;; esac
      read -r stat <"$dir/stat" || continue
      set -- \${stat##*) }
      case " $groups $strays" in *" $3 "* | *" $2:"*) strays="$strays$pid:\${20} " more=1 ;; esac
    done
  done
}

strike() {
  look
  alive=
  for group in $groups; do kill -s "$1" -- "-$group" && alive="$alive $group"; done
  groups=$alive
  for stray in $strays; do
    read -r stat <"/proc/\${stray%:*}/stat" || continue
    start=\${stray#*:}
    name=$1
    set -- \${stat##*) }
    [ "\${20}" = "$start" ] && kill -s "$name" "\${stray%:*}"
    set -- "$name"
  done
}

strike TERM
sleep 1
strike KILL
`;
