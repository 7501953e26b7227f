export {
  type ControlEffect,
  ControlPeer,
  type ControlRequest,
  type ControlResponse,
  isControl,
} from './control-peer.ts';
export { encodeLine, InvalidLine, JsonlDecoder, type LineOptions } from './jsonl.ts';
export { encodeSse, SseDecoder, type SseEvent, type SseMessage } from './sse.ts';
