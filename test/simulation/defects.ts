import type { Patch } from './bundle.ts';
import { NETWORK_DEFECTS } from './network-defects.ts';
import type { PartName } from './part-names.ts';

/** A mistake that the simulator must find. */
export interface Defect extends Patch {
  readonly name: string;
  /** The part whose schedules find it. */
  readonly part: PartName;
}

const defect = (name: string, file: string, from: string, to: string): Defect => ({
  name,
  part: /^(task|event)\//.test(file) ? 'tasks' : 'host',
  file: `src/${file}`,
  from,
  to,
});

/**
 * Mistakes that were tried and not found, because a second guard of the product prevents the
 * damage. They are not in the list below.
 */
export const HIDDEN: Readonly<Record<string, string>> = {
  'an answer before the agent is called is lost':
    'The next write of the run conflicts with the answer and reads it, and a run that is suspended has it in its snapshot.',
  'a claim that another machine took goes on':
    'The notice of the new claim, the end of the lease by the own clock, and the refused next write each stop the run.',
  'a note after a gap is passed on, the one in the gap is not':
    'The rows of a note arrive in order, or without rows; the next write of the run conflicts with a note that was left out and reads it.',
  'a second dispose of a session begins again':
    'Each thing that a dispose does has its own guard: the pipe ends once, a closed link refuses the second interrupt, and the transport is disposed once.',
};

/** Mistakes that a change could make. Each is one change of the real code. */
export const DEFECTS: readonly Defect[] = [
  defect(
    'a recovered wait is taken as due',
    'task/run/claimed-task.ts',
    'const now = (await this.#recover()) ? 0 : Infinity;',
    'await this.#recover();\n      const now = Infinity;',
  ),
  defect(
    'a suspended wait is taken as due',
    'task/run/claimed-task.ts',
    'turn = this.#next(0)',
    'turn = this.#next(Infinity)',
  ),
  defect(
    'a claim is not released',
    'task/run/claimed-task.ts',
    'await this.#log.release(this.#claim).catch(() => {});',
    '',
  ),
  defect(
    'the timer of a drain is forgotten',
    'task/run/claimed-task.ts',
    'clearTimeout(this.#writing);',
    '',
  ),
  defect(
    'a drained run fails instead of going on',
    'task/run/agent-run.ts',
    "if (!this.#normalized && this.#stop.isAbortedBy('suspended')) return;",
    '',
  ),
  defect(
    'a cancel does not stop the run',
    'task/run/agent-run.ts',
    "this.#abort('canceled', note.reason ?? 'the task was canceled');",
    '',
  ),
  defect(
    'the timer of the time limit is forgotten',
    'task/run/agent-run.ts',
    'this.#deadline.stop();\n      this.#listener?.onEnd();',
    'this.#listener?.onEnd();',
  ),
  defect(
    'a lost claim does not stop the run',
    'task/run/agent-run.ts',
    'lost = { reason };\n      this.#stop.abort(reason);',
    'lost = { reason };',
  ),
  defect(
    'a batch whose reply was lost is written twice',
    'task/run/task-writer.ts',
    'return own > 0;',
    'return false;',
  ),
  defect(
    'half of a batch is taken for the whole',
    'task/run/task-writer.ts',
    'if (own === 0 || own === batch) break;',
    'break;',
  ),
  defect(
    'a store that fails once ends the run',
    'task/run/task-writer.ts',
    'else if (retryable) await this.#pause(tries++);\n        else throw error;',
    'else throw error;',
  ),
  defect(
    'a run that was canceled before it began is written as it is',
    'task/run/task-writer.ts',
    'canceling && !running ? recoverRun(this.snapshot, {}) : rebaseEvents(this.snapshot, events);',
    'events;',
  ),
  defect(
    'a batch counts as written before it is',
    'task/run/write-combiner.ts',
    'try {\n      await this.#put(batch);',
    'try {\n      for (const resolve of onWritten) resolve();\n      await this.#put(batch);',
  ),
  defect(
    'the batch after a batch is not written',
    'task/run/write-combiner.ts',
    'this.#running = this.#batch.length > 0 ? this.#run() : undefined;',
    'this.#running = undefined;',
  ),
  defect(
    'earlier steps are not read',
    'task/run/stored-steps.ts',
    "if (entry.type === 'step.stored') addStep(found, entry);",
    '',
  ),
  defect(
    'a run that ends wakes no claim',
    'task/run/runner.ts',
    'this.#owners.add(owner, -1);\n        this.#room?.();',
    'this.#owners.add(owner, -1);',
  ),
  defect(
    'a reserved slot is kept',
    'task/run/runner.ts',
    'if (here) {\n        this.#reserved--;',
    'if (here) {',
  ),
  defect(
    'a claim without room is dropped, not released',
    'task/run/runner.ts',
    'else await this.#release(claim);\n      while',
    'while',
  ),
  defect(
    'a drain does not wait for runs',
    'task/run/runner.ts',
    'for (const { done } of this.#active.values()) await done;',
    '',
  ),
  defect(
    'heartbeats go on after the last claim',
    'task/log/active-claims.ts',
    'if (this.#claims.size === 0) {\n      clearInterval(this.#timer);',
    'if (this.#claims.size === 0) {',
  ),
  defect(
    'leases are not renewed',
    'task/log/active-claims.ts',
    'this.beat().catch(reportUnexpected);\n    }, this.#beatMs);',
    '}, this.#beatMs);',
  ),
  defect(
    'the timer of a cancel is forgotten',
    'task/log/cancel-deadlines.ts',
    'for (const timer of this.#timers.values()) clearTimeout(timer);',
    '',
  ),
  defect(
    'the log keeps listening after it is closed',
    'task/log/task-log.ts',
    'clearInterval(this.#poll);\n    this.#unlisten();',
    'clearInterval(this.#poll);',
  ),
  defect(
    'the log keeps polling after it is closed',
    'task/log/task-log.ts',
    'clearInterval(this.#poll);\n    this.#unlisten();',
    'this.#unlisten();',
  ),
  defect(
    'readers are not ended when the log is closed',
    'task/log/task-log.ts',
    'this.#tails.close();\n    this.#claimed.close();\n    this.#cancelDeadlines',
    'this.#claimed.close();\n    this.#cancelDeadlines',
  ),
  defect(
    'a reader shows entries twice',
    'task/log/live-tail.ts',
    'while ((this.#rows[this.#given]?.seq ?? Infinity) <= this.#position) this.#given++;',
    '',
  ),
  defect(
    'a reader does not see that the task moved on',
    'task/log/live-tail.ts',
    'if (found.head > tail.head || found.ended) tail.moved(found.head, found.ended);',
    '',
  ),
  defect(
    'a failed read is not repeated',
    'task/log/live-tail.ts',
    'this.#fetchAgain(tail)?.catch(reportUnexpected);',
    '',
  ),
  defect(
    'an old claim may write',
    'task/store/task-rules.ts',
    'if (head.epoch !== epoch)\n      throw',
    'if (head.epoch < epoch)\n      throw',
  ),
  defect(
    'an append does not look at the last entry',
    'task/store/task-rules.ts',
    'if (seq !== after)\n      throw',
    'if (seq < after)\n      throw',
  ),
  defect(
    'a message that is repeated is a second turn',
    'task/store/task-rules.ts',
    'const known = dedupe ? this.#storage.turn(key) : undefined;',
    'const known = undefined as { task: string; seq: Seq } | undefined;',
  ),
  defect(
    'an answer without a question is accepted',
    'task/store/task-rules.ts',
    'refuseAnswers(head?.snapshot, turn);',
    '',
  ),
  defect(
    'a suspended task keeps its claim',
    'task/store/task-rules.ts',
    'needsRun(to.snapshot) || (running && !suspended) ? to : free(to)',
    'needsRun(to.snapshot) || running ? to : free(to)',
  ),
  defect(
    'a lost claim is renewed',
    'task/store/store-rules.ts',
    "if (head.epoch !== epoch) return { task, claim: 'lost', head: seq };",
    "if (head.epoch !== epoch) return { task, claim: 'held', head: seq };",
  ),
  defect(
    'an expired lease is not seen',
    'task/store/run-queue.ts',
    'if (now < this.#nextEnd) return undefined;',
    'if (now < Infinity) return undefined;',
  ),
  defect(
    'a sleeping task is never due',
    'task/store/run-queue.ts',
    'if (wall < this.#nextDue) return;',
    'if (wall < Infinity) return;',
  ),
  defect(
    'the result of a step is returned before it is stored',
    'event/run/step-runner.ts',
    'await this.#settle(output === undefined ? end : { ...end, output });',
    'this.#settle(output === undefined ? end : { ...end, output }).catch(() => {});',
  ),
  defect(
    'a step begins after the run was stopped',
    'event/run/step-runner.ts',
    'this.#host.stop.signal.throwIfAborted();\n      const since',
    'const since',
  ),
  defect(
    'a stored result is not used',
    'event/run/step-runner.ts',
    "const stored = this.#host.stored.get(id);\n    if (stored?.status === 'completed') return stored.output;\n    if (stored?.status === 'failed') throw failureOf(stored);\n    let attempt = 1;",
    'const stored = this.#host.stored.get(id);\n    let attempt = 1;',
  ),
  defect(
    'an event that arrived before its wait is lost',
    'event/run/step-runner.ts',
    'if (known) return Promise.resolve(known);',
    '',
  ),
  defect(
    'a step that a cancel kept out of the log resolves',
    'event/run/normalize-agent.ts',
    "this.#stop.isAbortedBy('canceled') ? reject(this.#stop.reason) : resolve();",
    'resolve();',
  ),
  defect(
    'a further run shows everything again',
    'event/run/replay-filter.ts',
    "if (this.#state === 'started over') return [event];",
    'if (Date.now() > 0) return [event];',
  ),
  defect(
    'a cancel changes nothing of what is being written',
    'event/fold/recover-run.ts',
    'if (!snapshot.canceling) return events;',
    'if (Date.now() > 0) return events;',
  ),
  defect(
    'a response that is lost is not reported',
    'host/session/agent-session.ts',
    'this.#parts.lanes.lostResponse(frame, reason, request);',
    '',
  ),
  defect(
    'a broken transport leaves the timers of a session',
    'host/session/agent-session.ts',
    'this.#timeouts.stop();\n',
    '',
  ),
  defect(
    'timers start after the end of a session',
    'host/session/session-timeouts.ts',
    'if (!this.#over) this.#exit.start();',
    'this.#exit.start();',
  ),
  defect(
    'the limit of an interrupt is forgotten',
    'host/session/session-timeouts.ts',
    'for (const cancel of this.#limited) cancel();',
    '',
  ),
  defect(
    'stdin closes before the result of a turn',
    'host/session/stdin-gate.ts',
    'this.#turns.open > 0 ||\n',
    '',
  ),
  defect(
    'stdin closes although a call is open',
    'host/session/stdin-gate.ts',
    'this.#requests.pendingCount > 0 ||\n',
    '',
  ),
  defect('a query does not end its input', 'host/query/query.ts', '    session.endInput();\n', ''),
  defect(
    'a process that ignores SIGTERM is left',
    'host/launch/custom-process.ts',
    "child.kill('SIGKILL');",
    '',
  ),
  defect(
    'a broken pipe goes unnoticed',
    'host/frames/pipe-writer.ts',
    'this.#transport.write(text, (reason) => this.#lose(frames, reason));',
    'this.#transport.write(text);',
  ),
  defect(
    'a call that is repeated runs twice',
    'wire/control-peer.ts',
    'if (this.#incoming.has(id) || this.#withdrawn.has(id)) {',
    'if (this.#withdrawn.has(id)) {',
  ),
  defect(
    'a dispose does not stop tools',
    'wire/control-peer.ts',
    'const aborted = this.#abortServing(reason);',
    'const aborted: readonly ControlEffect[] = [];',
  ),
  defect(
    'a tool goes on after its CLI is gone',
    'wire/control-peer.ts',
    'return [...rejected, ...this.#abortServing(reason)];',
    'return rejected;',
  ),
  defect(
    'a request waits for a CLI that is gone',
    'wire/control-peer.ts',
    'return [...rejected, ...this.#abortServing(reason)];',
    'return this.#abortServing(reason);',
  ),
  defect(
    'a request keeps listening to its signal',
    'wire/control-link.ts',
    'return result.finally(unlisten);',
    'return result;',
  ),
  defect(
    'calls of a CLI that is gone are not reported',
    'wire/control-link.ts',
    'for (const id of this.#peer.incoming.keys())\n      this.#run',
    'for (const id of [] as string[])\n      this.#run',
  ),
  ...NETWORK_DEFECTS,
];
