import type { Defect } from './defects.ts';
import type { PartName } from './part-names.ts';

const plant =
  (part: PartName) =>
  (name: string, file: string, from: string, to: string): Defect => ({
    name,
    part,
    file: `src/${file}`,
    from,
    to,
  });

const a2a = plant('a2a');
const mcp = plant('mcp');

/** Mistakes in the servers and clients of A2A and MCP. */
export const NETWORK_DEFECTS: readonly Defect[] = [
  a2a(
    'a stream that resumes repeats its last event',
    'event/event-id.ts',
    'return outs.filter(({ id }) => comparePositions(parseId(id), after) > 0);',
    'return outs.filter(({ id }) => comparePositions(parseId(id), after) >= 0);',
  ),
  a2a(
    'a client keeps its first event id',
    'a2a/client/a2a-stream.ts',
    "if (id !== '') this.#lastEventId = id;",
    "if (id !== '') this.#lastEventId ??= id;",
  ),
  a2a(
    'a stream that ends keeps its slot',
    'a2a/server/http-response.ts',
    'this.#slot.release();\n    await this.#batches.return?.();',
    'await this.#batches.return?.();',
  ),
  a2a(
    'a request without a stream keeps its slot',
    'a2a/server/dispatch-operation.ts',
    'if (!streaming) slot.release();',
    '',
  ),
  a2a(
    'the timer of a silent stream is forgotten',
    'a2a/client/http-transport.ts',
    'return work.finally(() => clearTimeout(timer));',
    'return timer && work;',
  ),
  a2a(
    'a message that is sent again follows another task',
    'a2a/server/task-operations.ts',
    "const task = entry.type === 'turn.submitted' ? entry.turn.task : turn.task;",
    'const { task } = turn;',
  ),
  a2a(
    'a stream that is cut is not resumed',
    'a2a/client/a2a-stream.ts',
    'return retryable && (this.#taskId !== undefined || this.#exact);',
    'return retryable && this.#taskId === undefined && this.#exact;',
  ),
  a2a(
    'a stream keeps listening to the signal of its app',
    'a2a/client/a2a-stream.ts',
    '} finally {\n      unlisten();\n      stop.abort();',
    '} finally {\n      stop.abort();',
  ),
  a2a(
    'a poll reports the first change only',
    'a2a/client/poll-task.ts',
    'const events = changes(before, task);',
    'const events = changes(before, task).slice(0, 1);',
  ),
  a2a(
    'the answers of a message are dropped',
    'a2a/server/task-operations.ts',
    '...(answers.length > 0 && { answers }),',
    '',
  ),
  a2a(
    'the last event of a task is not sent',
    'a2a/server/task-stream.ts',
    'ended = ends(out);\n      events.push({ id, out, last: ended });',
    'ended = ends(out);\n      if (!ended) events.push({ id, out, last: ended });',
  ),
  a2a(
    'an error in a REST stream of 0.3 is taken for an event',
    'a2a/client/http-transport.ts',
    "else if (message.event === 'error') throw errorOf(message.data, response);\n",
    '',
  ),
  a2a(
    'a client reads on after the end',
    'a2a/client/a2a-stream.ts',
    'if (this.#fold.settled) return;\n          isAway = false;',
    'isAway = false;',
  ),
  mcp(
    'a cancellation is not sent',
    'mcp/json-rpc/pending-requests.ts',
    'if (!this.#transport.cancelsByClosing) await this.#transport.send(message).catch(() => {});',
    'if (!message) return;',
  ),
  mcp(
    'a cancellation does not stop its call',
    'mcp/json-rpc/server/offer-messages.ts',
    'if (running.id === requestId) running.abort(error);',
    'if (running.id === requestId) void error;',
  ),
  mcp(
    'progress goes to the newest call',
    'mcp/json-rpc/client/mcp-client.ts',
    "this.calls.get(params['progressToken'] as RpcId)?.push(toProgress(params));",
    '[...this.calls.values()].at(-1)?.push(toProgress(params));',
  ),
  mcp(
    'a message without a request goes to any caller',
    'mcp/json-rpc/client/mcp-client.ts',
    'if (this.callers.several) return undefined;',
    '',
  ),
  mcp(
    'a question goes to the first call that is open',
    'mcp/json-rpc/client/mcp-client.ts',
    'const asker = this.#related(message, this.askers);',
    'const [asker] = this.askers.values();',
  ),
  mcp(
    'a server that closes does not stop its calls',
    'mcp/json-rpc/server/offer-messages.ts',
    'for (const running of this.#running.values()) running.abort(closed);',
    '',
  ),
  mcp(
    'idle sessions are kept',
    'mcp/json-rpc/http/server/mcp-handler.ts',
    'if (idle && usedAt < performance.now() - idleMs) close(id).catch(onError);',
    'if (idle && usedAt < 0) close(id).catch(onError);',
  ),
  mcp(
    'the sweeper goes on after dispose',
    'mcp/json-rpc/http/server/mcp-handler.ts',
    'clearInterval(sweeper);',
    'void sweeper;',
  ),
  mcp(
    'a call keeps listening to its signal',
    'mcp/json-rpc/client/pending-call.ts',
    'unlisten();\n      clearTimeout(timer);',
    'clearTimeout(timer);',
  ),
  mcp(
    'a response that is resumed repeats an event',
    'mcp/json-rpc/http/server/resumable-stream.ts',
    'let next = after + 1;',
    'let next = Math.max(1, after);',
  ),
  mcp(
    'a response overtakes the progress before it',
    'mcp/json-rpc/server/offer-messages.ts',
    'if (context.spoke) await this.#outbox.flushed();',
    '',
  ),
  mcp(
    'a listener waits for a server that is gone',
    'mcp/json-rpc/client/mcp-client.ts',
    'this.changes.fail(reason);\n',
    '',
  ),
  mcp(
    'a JSON response that is cut has no code',
    'mcp/json-rpc/http/message-body.ts',
    '.catch((error: unknown) => {\n    throw DuolaneError.from(error, ',
    '.catch((error: unknown) => {\n    throw error ?? DuolaneError.from(error, ',
  ),
  mcp(
    'the time limit of a notification has no code',
    'mcp/json-rpc/http/client/http-transport.ts',
    '.catch(notDelivered(NOTIFY_MS))',
    '',
  ),
];
