export {
  type Handler,
  listen,
  type Listening,
  type ListenOptions,
  nodeHandler,
  type NodeHandlerOptions,
} from './node-server.ts';
export { sseResponse, type SseItem } from './sse-response.ts';
