import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** The script of the model for every framework: it calls the weather tool once, then answers. */
const ARGS = { city: 'Paris' };
const ANSWER = ['In Paris ', 'it is 21 °C ', 'and clear.'];

/** The events of a call of the tool `name`, and of the answer, in the format of each API. */
const APIS = {
  '/chat/completions': {
    called: '"role":"tool"',
    call: (name: string) => [
      chunk({
        tool_calls: [
          {
            index: 0,
            id: 'call_1',
            type: 'function',
            function: { name, arguments: JSON.stringify(ARGS) },
          },
        ],
      }),
      chunk({}, 'tool_calls'),
      counted,
    ],
    answer: () => [...ANSWER.map((content) => chunk({ content })), chunk({}, 'stop'), counted],
  },
  '/messages': {
    called: '"tool_result"',
    call: (name: string) =>
      message('tool_use', { type: 'tool_use', id: 'call_1', name, input: {} }, [
        { type: 'input_json_delta', partial_json: JSON.stringify(ARGS) },
      ]),
    answer: () =>
      message(
        'end_turn',
        { type: 'text', text: '' },
        ANSWER.map((words) => ({ type: 'text_delta', text: words })),
      ),
  },
  ':streamGenerateContent': {
    called: '"functionResponse"',
    call: (name: string) => [
      candidate({ functionCall: { id: 'call_1', name, args: ARGS } }, 'STOP'),
    ],
    answer: () => [
      ...ANSWER.map((words) => candidate({ text: words })),
      candidate({ text: '' }, 'STOP'),
    ],
  },
};

const frame = { id: 'answer', object: 'chat.completion.chunk', created: 1, model: 'offline' };
const chunk = (delta: object, finish_reason: string | null = null): object => ({
  ...frame,
  choices: [{ index: 0, delta: { role: 'assistant', ...delta }, finish_reason }],
});
const usage = { prompt_tokens: 12, completion_tokens: 9, total_tokens: 21 };
const counted = { ...frame, choices: [], usage };

const message = (
  stop_reason: string,
  content_block: object,
  deltas: readonly object[],
): object[] => [
  {
    type: 'message_start',
    message: { id: 'answer', type: 'message', role: 'assistant', content: [], usage: {} },
  },
  { type: 'content_block_start', index: 0, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index: 0, delta })),
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason }, usage: { output_tokens: 9 } },
  { type: 'message_stop' },
];

const candidate = (part: object, finishReason?: string): object => ({
  candidates: [
    { index: 0, content: { role: 'model', parts: [part] }, ...(finishReason && { finishReason }) },
  ],
});

/** A scripted model on loopback that speaks three APIs. */
export async function startModel(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const path = new URL(request.url ?? '/', 'http://localhost').pathname;
      const [, api] = Object.entries(APIS).find(([end]) => path.endsWith(end)) ?? [];
      if (!api) return response.writeHead(404).end();
      const tool = /"name":"((?:mcp__sky__)?weather)"/.exec(body)?.[1];
      const events =
        tool !== undefined && !body.includes(api.called) ? api.call(tool) : api.answer();
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of events) {
        if ('type' in event) response.write(`event: ${String(event.type)}\n`);
        response.write(`data: ${JSON.stringify(event)}\n\n`);
      }
      return response.end(path.endsWith('/chat/completions') ? 'data: [DONE]\n\n' : undefined);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
