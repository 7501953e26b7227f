export {
  type ControlResponse,
  type ControlEffect,
  ControlPeer,
  type ControlRequest,
  isControl,
} from './control-peer.ts';
export {
  isNotification,
  isRpcRequest,
  isResponse,
  isRpcId,
  readRpc,
  RPC,
  type RpcError,
  rpcError,
  type RpcId,
  type RpcMessage,
  type RpcNotification,
  rpcNotification,
  type RpcRequest,
  rpcRequest,
  rpcResult,
  type RpcSuccess,
} from './json-rpc.ts';
export {
  encodeLine,
  JsonlDecoder,
  LineDecoder,
  type LineOptions,
  InvalidLine,
  parseLine,
} from './jsonl.ts';
export { fromRpcError, RPC_CODE, toRpcError } from './json-rpc-errors.ts';
export { encodeSse, SseDecoder, type SseEvent, type SseMessage } from './sse.ts';
