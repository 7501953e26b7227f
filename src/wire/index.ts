export * from './json-rpc.ts';
export { encodeLine, JsonlDecoder, Noise, parseLine } from './jsonl.ts';
export { encodeSse, type SseEvent } from './sse.ts';
