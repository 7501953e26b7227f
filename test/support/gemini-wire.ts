import { ERROR_TYPES, pieces, toolsOf, usageOf, type ModelWire } from './model-wire.ts';

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\r\n\r\n`;

const statusOf = (type: string): number =>
  Number(Object.entries(ERROR_TYPES).find(([, name]) => name === type)?.[0] ?? 500);

/** Gemini's generateContent: complete function calls, usage on every chunk. */
export const gemini: ModelWire = {
  stream(reply, model) {
    const { input, output } = usageOf(reply);
    const usageMetadata = {
      promptTokenCount: input,
      candidatesTokenCount: output,
      totalTokenCount: input + output,
    };
    const chunk = (parts: readonly object[], finishReason?: string): string =>
      data({
        candidates: [
          { index: 0, content: { role: 'model', parts }, ...(finishReason && { finishReason }) },
        ],
        usageMetadata,
        modelVersion: model,
      });
    return [
      ...pieces(reply.thinking).map((text) => chunk([{ text, thought: true }])),
      ...pieces(reply.text).map((text) => chunk([{ text }])),
      ...toolsOf(reply).map(({ id, name, input: args }) =>
        chunk([{ functionCall: { id, name, args } }]),
      ),
      chunk([{ text: '' }], reply.stopReason ?? 'STOP'),
    ];
  },
  whole(reply, model) {
    const { input, output } = usageOf(reply);
    const parts = [
      ...(reply.text === undefined ? [] : [{ text: pieces(reply.text).join('') }]),
      ...toolsOf(reply).map(({ id, name, input: args }) => ({ functionCall: { id, name, args } })),
    ];
    return {
      candidates: [{ index: 0, content: { role: 'model', parts }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: input, candidatesTokenCount: output },
      modelVersion: model,
    };
  },
  error: (type, message) => ({ error: { code: statusOf(type), message, status: type } }),
  streamError: (type, message) => data({ error: { code: statusOf(type), message, status: type } }),
};
