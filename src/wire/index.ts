export {
  type ControlAnswer,
  type ControlEffect,
  ControlPeer,
  type ControlRequest,
  isControl,
} from './control.ts';
export * from './json-rpc.ts';
export { encodeLine, JsonlDecoder, Noise, parseLine } from './jsonl.ts';
export { encodeSse, type SseEvent } from './sse.ts';
