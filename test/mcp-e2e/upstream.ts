import { HttpUpstream, sseUpstream } from '../../src/mcp/json-rpc/http/client/http-upstream.ts';
import { onlyRelayed } from '../../src/mcp/relay/upstream.ts';
import { type MessageTransport, relaySource, type ToolSource } from '../../src/mcp/index.ts';

/**
 * The suite's server as a source. A dial would open a connection of its own before the client's,
 * which the cases would count.
 */
export const upstreamOf = {
  messages: (connect: () => Promise<MessageTransport>): ToolSource => relaySource(connect),
  http: (url: URL, fetch: typeof globalThis.fetch): ToolSource =>
    onlyRelayed(new HttpUpstream({ url, fetch })),
  sse: (url: URL): ToolSource => onlyRelayed({ ...sseUpstream({ url }), reopens: false }),
};
