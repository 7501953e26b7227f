import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { send } from './process-tree.ts';

/**
 * Ends the process group with this process, however this process ends. Call `watch` when the group
 * starts and `unwatch` when all of it is gone. `process.exit` sends SIGTERM, and SIGKILL follows a
 * second later. After every other end, kill -9 included, a shell that waits for end of file on a
 * pipe from us stops the group and kills it immediately: an agent CLI whose stdin ends would
 * otherwise continue without its host, with one more request to the model.
 *
 * One shell watches all groups and exits with the last of them; it takes 1.7 MB, a Node process
 * would take 40. It is outside of the groups, because a shell inside would have to start the child
 * itself: it would hide why a start failed, and dash drops variables such as `a-b`. It starts after
 * the first child, so that it does not delay it: for about 2 ms that child is not watched.
 */
export function watch(group: number): void {
  if (groups.size === 0) process.on('exit', endAll);
  groups.add(group);
  sendGroups();
}

/** Removes a group that is gone, so that a reused number is never signalled. */
export function unwatch(group: number): void {
  if (!groups.delete(group)) return;
  if (groups.size === 0) process.off('exit', endAll);
  sendGroups();
}

const groups = new Set<number>();
let shell: ChildProcess | undefined;
let warned = false;

/** Sends the complete list each time: the last line that the shell has read is the current one. */
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
    if (shell === child) shell = undefined; // the next change of the list starts another shell
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
  const message =
    'cannot start the watchdog: if this process is killed with kill -9, its children keep running';
  process.emitWarning(message, { code: 'DUOLANE_WATCHDOG', detail: String(error) });
}

function endAll(): void {
  for (const group of groups) {
    if (process.platform === 'win32') send(group, 'SIGKILL');
    else send(-group, shell?.pid === undefined ? 'SIGKILL' : 'SIGTERM');
  }
  // A write of a few bytes to a pipe is done before it returns, also while the process exits.
  if (groups.size > 0) shell?.stdin?.write(`${GRACE} ${[...groups].join(' ')}\n`);
}

/** Begins the list of groups that have got SIGTERM and a second to end. */
const GRACE = 'grace';

/**
 * Reads lists of groups until end of file. Then it stops the groups of the last list and sends
 * SIGKILL to them and to descendants that left them (`pid:start`, found through /proc if there is
 * one); if the list begins with `grace`, it sends SIGTERM and waits a second before. A group that
 * is gone at the first signal is never signalled again, and a stray process only while its start
 * time is the same, so a reused pid is safe.
 */
const SCRIPT = `
trap '' HUP INT TERM
groups=
while read -r line; do groups=$line; done
grace=
case $groups in '${GRACE} '*) grace=1 groups=\${groups#* } ;; esac
[ "$groups" ] || exit 0
[ "$grace" ] || for group in $groups; do kill -s STOP -- "-$group"; done
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

if [ "$grace" ]; then
  strike TERM
  sleep 1
fi
strike KILL
`;
