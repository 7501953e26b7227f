import { randomUUID } from 'node:crypto';
import type { Agent, AgentEvent, Part, Turn } from '../../src/event/types.ts';
import type { Reply } from '../../src/a2a/index.ts';
import { sleep } from '../../src/stream/index.ts';

/**
 * The agent that the A2A compatibility kit talks to. It wants a behaviour per prefix of `messageId`;
 * everything else is the server's own doing.
 */
export const tckAgent: Agent = async function* (turn, ctx) {
  const [prefix = ''] = Object.keys(SCRIPTS)
    .filter((each) => turn.messageId.startsWith(each))
    .slice(-1);
  // The suite for 0.3 names no behaviour; it wants tasks that can be continued and canceled.
  if (prefix === 'tck-input-required' || !/^tck-|^test-resubscribe/.test(turn.messageId)) {
    const rounds = prefix === '' ? 5 : 1;
    for (let n = 1; n <= rounds; n++)
      await ctx.ask({ id: `${turn.messageId}/${n}`, kind: 'question', message: 'What else?' });
  } else if (prefix === 'test-resubscribe-message-id') {
    yield { type: 'status', message: 'working' };
    await sleep(5000, ctx.signal);
  }
  yield* SCRIPTS[prefix] ?? [completed('Hello from TCK')];
};

/** One behaviour creates no task: a reply message. */
export const tckReply: Reply = async ({ messageId }: Turn) =>
  messageId.startsWith('tck-message-response') ? [{ text: 'Direct message response' }] : undefined;

const completed = (text: string): AgentEvent => ({
  type: 'run.finished',
  outcome: 'completed',
  text,
});

const artifact = (...parts: readonly Part[]): AgentEvent => ({
  type: 'artifact',
  artifactId: randomUUID(),
  name: 'result',
  parts,
  last: true,
});

const file = { mediaType: 'text/plain', filename: 'output.txt' };
const bytes = new Uint8Array(Buffer.from('file content'));
const chunked = randomUUID();

/** A longer prefix stands behind the shorter one that it begins with. */
const SCRIPTS: Readonly<Record<string, readonly AgentEvent[]>> = {
  'tck-complete-task': [completed('Hello from TCK')],
  'tck-artifact-text': [artifact({ text: 'Generated text content' })],
  'tck-artifact-file': [artifact({ bytes, ...file })],
  'tck-artifact-file-url': [artifact({ url: 'https://example.com/output.txt', ...file })],
  'tck-artifact-data': [artifact({ data: { key: 'value', count: 42 } })],
  'tck-input-required': [completed('Thank you')],
  'tck-reject-task': [{ type: 'run.finished', outcome: 'rejected', text: 'rejected' }],
  'tck-stream-001': [artifact({ text: 'Stream hello from TCK' })],
  'tck-stream-002': [completed('')],
  'tck-stream-003': [artifact({ text: 'Stream task lifecycle' })],
  'tck-stream-ordering-001': [artifact({ text: 'Ordered output' })],
  'tck-stream-artifact-text': [artifact({ text: 'Streamed text content' })],
  'tck-stream-artifact-file': [artifact({ bytes, ...file })],
  'tck-stream-artifact-chunked': [
    { type: 'artifact', artifactId: chunked, name: 'chunks', parts: [{ text: 'chunk-1 ' }] },
    {
      type: 'artifact',
      artifactId: chunked,
      parts: [{ text: 'chunk-2' }],
      append: true,
      last: true,
    },
  ],
  'test-resubscribe-message-id': [completed('done')],
};
