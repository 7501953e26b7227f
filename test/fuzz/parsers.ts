import fc from 'fast-check';
import { connectA2A } from '../../src/a2a/index.ts';
import { parseFlags } from '../../src/agent-cli/command-line/flags.ts';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { readArgs } from '../../src/cli/command.ts';
import { DuolaneError } from '../../src/errors.ts';
import { parseEvent } from '../../src/event/run/parse-event.ts';
import { decodeEntry, encodeEntry } from '../../src/event/entry-codec.ts';
import { encodeFrame, FrameDecoder } from '../../src/grpc/frames.ts';
import { infoOf, messagesOf } from '../../src/host/transcripts/transcript-files.ts';
import { isObject } from '../../src/json.ts';
import { createRegistry, offerMessages, tool } from '../../src/mcp/index.ts';
import { checkTrace, readTrace } from '../../src/trace/index.ts';
import { ControlPeer, isControl, JsonlDecoder, SseDecoder } from '../../src/wire/index.ts';
import { readRpc } from '../../src/wire/json-rpc.ts';
import { parseTranscript } from '../../src/wire/transcript.ts';
import { mutated, mutatedText } from './inputs.ts';

/** A target of the fuzzer: `run` may throw a `DuolaneError` and nothing else. */
export interface Target<Input = unknown> {
  readonly name: string;
  readonly inputs: fc.Arbitrary<Input>;
  /** How many inputs `npm test` tries. */
  readonly tries: number;
  run(input: Input): Promise<void> | void;
}

/** Hides the type of the inputs, so that one list can hold all targets. */
const target = <Input>(one: Target<Input>): Target => one as unknown as Target;

const FRAMES = [
  { type: 'control_request', request_id: 'r1', request: { subtype: 'can_use_tool', input: {} } },
  { type: 'control_response', response: { subtype: 'success', request_id: 'req_1', response: {} } },
  { type: 'control_response', response: { subtype: 'error', request_id: 'req_1', error: 'no' } },
  { type: 'control_cancel_request', request_id: 'r1' },
];

export const RPC_MESSAGES: readonly unknown[] = [
  { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { cursor: 'c' } },
  {
    jsonrpc: '2.0',
    id: 'a',
    method: 'tools/call',
    params: { name: 'echo', arguments: { text: 'hi' }, _meta: { progressToken: 1 } },
  },
  {
    jsonrpc: '2.0',
    id: 2,
    method: 'initialize',
    params: {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'c', version: '1' },
    },
  },
  { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1, reason: 'x' } },
  { jsonrpc: '2.0', id: 1, result: { content: [] } },
  { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'no', data: {} } },
];

const EVENTS: readonly object[] = [
  { type: 'text.delta', id: 't', delta: 'word' },
  { type: 'tool.called', callId: 'c', name: 'add', input: { a: 1 } },
  { type: 'tool.completed', callId: 'c', name: 'add', result: [{ text: '3' }], ms: 1 },
  {
    type: 'artifact',
    artifactId: 'a',
    parts: [{ text: 'x', mediaType: 'text/plain' }, { data: { a: 1 } }, { url: 'https://a.test' }],
    name: 'n',
    append: true,
    lastChunk: true,
  },
  { type: 'input.required', request: { id: 'q', kind: 'question', message: 'When?' } },
  { type: 'run.finished', outcome: 'failed', error: { code: 'server', message: 'no' } },
  { type: 'status', message: 'at work', data: { usage: 1 } },
];
const ENTRIES = EVENTS.map((event, index) => ({ ...event, seq: index + 1, at: 1_700_000_000_000 }));

const LINES = [
  { format: 'duolane-trace', version: 1, command: 'cli' },
  { at: 1, dir: 'in', lane: 'message', frame: { type: 'result', subtype: 'success' } },
  { at: 2, dir: 'out', lane: 'control', frame: FRAMES[0] },
];

const CARDS = [
  {
    name: 'agent',
    protocolVersion: '0.3.0',
    url: 'http://127.0.0.1:9/a2a',
    preferredTransport: 'JSONRPC',
    additionalInterfaces: [{ url: 'http://127.0.0.1:9/a2a', transport: 'HTTP+JSON' }],
    capabilities: { streaming: true },
    skills: [{ id: 's', name: 's', tags: [] }],
  },
  {
    name: 'agent',
    supportedInterfaces: [
      { url: 'http://127.0.0.1:9/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: '127.0.0.1:9', protocolBinding: 'GRPC', protocolVersion: '1.0', tenant: 't' },
    ],
    capabilities: { streaming: true, extensions: [{ uri: 'urn:x' }] },
  },
];

const TRANSCRIPT = [
  { type: 'user', uuid: 'u', sessionId: 's', message: { role: 'user', content: 'hi' }, cwd: '/' },
  {
    type: 'assistant',
    uuid: 'v',
    parentUuid: 'u',
    message: { role: 'assistant', content: [{ type: 'text', text: 'hello' }] },
  },
  { type: 'summary', summary: 'A talk', leafUuid: 'v' },
];

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Splits a text into chunks at the given positions. */
const chunked = (text: fc.Arbitrary<string>): fc.Arbitrary<string[]> =>
  fc.tuple(text, fc.array(fc.nat(200), { maxLength: 5 })).map(([whole, sizes]) => {
    const chunks: string[] = [];
    let rest = whole;
    for (const size of sizes) {
      chunks.push(rest.slice(0, size));
      rest = rest.slice(size);
    }
    return [...chunks, rest];
  });

const lines = (templates: readonly unknown[]): fc.Arbitrary<string> =>
  fc
    .array(fc.oneof(mutatedText(templates), fc.constantFrom('', '\r', 'data: x', ':', 'id: 1')), {
      maxLength: 6,
    })
    .map((all) => all.join('\n'));

async function* each(chunks: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield bytes(chunk);
}

const words = fc.array(
  fc.oneof(
    fc.constantFrom('--port', '--auth', '--model', '--allowedTools', '--mcp-config', '--', '-p'),
    fc.constantFrom('--permission-mode', '--max-turns', '--session-id', '--help=1', '--settings'),
    fc.string({ unit: 'binary', maxLength: 20 }),
    fc.constantFrom('{bad', '{}', '-1', '1e99', 'NaN', '__proto__', '(((', 'Bash(a, b', '--x=--y'),
  ),
  { maxLength: 6 },
);

/** The parsers: no server, no socket. */
export async function parsers(): Promise<Target[]> {
  const commands = await Promise.all(
    Object.entries(COMMANDS).map(async ([name, { load }]) => [name, await load()] as const),
  );
  const source = createRegistry({
    name: 's',
    tools: [tool('echo', 'Echoes', {}, async () => 'x')],
  });
  return [
    target({
      name: 'jsonl',
      inputs: chunked(lines(FRAMES)),
      tries: 1500,
      run(chunks) {
        const decoder = new JsonlDecoder({ maxBytes: 4096 });
        for (const chunk of chunks) decoder.decode(bytes(chunk));
        decoder.flush();
      },
    }),
    target({
      name: 'sse',
      inputs: chunked(lines(['data: {"a":1}', 'id: 4\nevent: x\nretry: 5\ndata: y\n\n', ': hi'])),
      tries: 1500,
      run(chunks) {
        const decoder = new SseDecoder({ maxBytes: 4096 });
        for (const chunk of chunks) decoder.decode(bytes(chunk));
      },
    }),
    target({
      name: 'json-rpc',
      inputs: mutated(RPC_MESSAGES),
      tries: 1500,
      run: (message) => void readRpc(message),
    }),
    target({
      name: 'control-protocol',
      inputs: fc.array(mutated(FRAMES), { maxLength: 6 }),
      tries: 1500,
      run(frames) {
        const peer = new ControlPeer();
        peer.request({ subtype: 'initialize' });
        for (const frame of frames) if (isObject(frame) && isControl(frame)) peer.receive(frame);
        peer.end(new DuolaneError('closed', 'over'));
        if (peer.outgoing.size > 0) throw new Error('a request was never settled');
      },
    }),
    target({
      name: 'event',
      inputs: mutated(EVENTS),
      tries: 1500,
      run: (event) => void parseEvent(event),
    }),
    target({
      name: 'entry',
      inputs: mutatedText(ENTRIES),
      tries: 1500,
      run(line) {
        const entry = decodeEntry(line);
        decodeEntry(encodeEntry(entry));
      },
    }),
    target({
      name: 'grpc-frames',
      inputs: fc.array(
        fc.uint8Array({ maxLength: 30 }).map((all) => [...all]),
        { maxLength: 5 },
      ),
      tries: 1500,
      run(chunks) {
        const decoder = new FrameDecoder(64);
        const whole = chunks.map((chunk) => encodeFrame(Uint8Array.from(chunk)));
        for (const chunk of [...whole, ...chunks]) decoder.decode(Uint8Array.from(chunk));
      },
    }),
    target({
      name: 'trace',
      inputs: chunked(lines([...LINES, ...ENTRIES])),
      tries: 600,
      async run(chunks) {
        for await (const item of readTrace(each(chunks)))
          if (item.line < 0) throw new Error('line');
        await checkTrace(readTrace(each(chunks)));
      },
    }),
    target({
      name: 'agent-cli-flags',
      inputs: words,
      tries: 1500,
      run: (argv) => void parseFlags(argv),
    }),
    target({
      name: 'command-flags',
      inputs: fc.tuple(fc.nat(100), words),
      tries: 1500,
      run([at, argv]) {
        const [name, command] = commands[at % commands.length]!;
        readArgs(name, command, argv);
      },
    }),
    target({
      name: 'transcript',
      inputs: lines(TRANSCRIPT),
      tries: 1000,
      run(text) {
        const entries = parseTranscript(text);
        infoOf('s', entries, { lastModified: 1 });
        messagesOf(entries);
      },
    }),
    target({
      name: 'agent-card',
      inputs: mutatedText(CARDS),
      tries: 600,
      async run(text) {
        const headers = { 'content-type': 'application/json' };
        const fetch = async (): Promise<Response> => new Response(text, { headers });
        const client = await connectA2A('http://127.0.0.1:9', { fetch });
        await client[Symbol.asyncDispose]();
      },
    }),
    target({
      name: 'mcp-offer',
      inputs: fc.array(mutated(RPC_MESSAGES), { maxLength: 4 }),
      tries: 300,
      async run(messages) {
        const end = offerMessages(source);
        for (const message of messages) if (isObject(message)) await end.receive(message);
        await end[Symbol.asyncDispose]();
      },
    }),
  ];
}
