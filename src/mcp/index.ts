export { type CursorOptions, StreamingAdapter } from './sources/streaming-adapter.ts';
export { callToEnd, type CallToEndOptions } from './sources/call-to-end.ts';
export type { ConnectSource } from './sources/lazy-connection.ts';
export {
  gateway,
  type Gateway,
  type GatewayMember,
  type GatewayOptions,
} from './sources/gateway.ts';
export { matchesToolName, parseToolName, toolName } from './registry/tool-names.ts';
export {
  type SourceLease,
  type PoolOptions,
  sourcePool,
  type SourcePool,
} from './sources/source-pool.ts';
export { createRegistry, type RegistryOptions } from './registry/registry.ts';
export {
  createSdkMcpServer,
  type SdkMcpServer,
  type SdkMcpServerOptions,
  tool,
  type ToolArgs,
  type ToolExtras,
} from './registry/tool.ts';
export { dialMessages } from './json-rpc/client/dial-messages.ts';
export { dialHttp, type DialHttpOptions, dialSse } from './json-rpc/http/client/dial-http.ts';
export type { OAuthClient, OAuthOptions, OAuthStore } from './json-rpc/http/client/oauth/types.ts';
export {
  type McpAuthorization,
  type McpToken,
  resourceDocument,
} from './json-rpc/http/server/authorization.ts';
export {
  mcpHandler,
  type McpHandler,
  type McpHandlerOptions,
} from './json-rpc/http/server/mcp-handler.ts';
export { offerHttp, type OfferHttpOptions } from './json-rpc/http/server/offer-http.ts';
export { asToolSource, dialInProcess, type SdkServer } from './json-rpc/in-process.ts';
export { offerMessages } from './json-rpc/server/offer-messages.ts';
export { serveMessages, type ServedMessages } from './json-rpc/server/serve-messages.ts';
export { dialStdio, offerStdio, type OfferStdioOptions } from './json-rpc/stdio.ts';
export type * from './types.ts';
