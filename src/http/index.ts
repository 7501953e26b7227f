export {
  type Handler,
  listen,
  type Listening,
  type ListenOptions,
  nodeHandler,
  type NodeHandlerOptions,
} from './node.ts';
export { sseResponse, type SseItem } from './sse.ts';
