export { type CursorOptions, StreamingAdapter } from './collect.ts';
export { matchesToolName, parseToolName, toolName } from './names.ts';
export { createRegistry, type RegistryOptions } from './registry.ts';
export {
  createSdkMcpServer,
  type SdkMcpServer,
  type SdkMcpServerOptions,
  tool,
  type ToolArgs,
  type ToolExtras,
} from './tool.ts';
export { dialMessages } from './json-rpc/dial.ts';
export {
  asToolSource,
  dialInProcess,
  type SdkServer,
  type SdkTransport,
} from './json-rpc/in-process.ts';
export { offerMessages } from './json-rpc/offer.ts';
export { serveMessages, type Serving } from './json-rpc/serve.ts';
export {
  dialStdio,
  dialTransport,
  type LinesOptions,
  offerStdio,
  type OfferStdioOptions,
} from './json-rpc/stdio.ts';
export type * from './types.ts';
