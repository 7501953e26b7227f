import { createSdkMcpServer, tool, type McpSdkServerConfigWithInstance } from 'duolane/host';
import { z } from 'zod';
import type { Guidelines } from './retrieval/guidelines.ts';
import { SEARCH_TOOL } from './names.ts';
import { formatSources } from './sources.ts';

const RESULTS = 6;

/**
 * The in-process server `briefing`: its tool embeds the query, searches and returns passages as
 * XML.
 */
export function briefingServer(
  guidelines: Guidelines | Promise<Guidelines>,
): McpSdkServerConfigWithInstance {
  const search = tool(
    SEARCH_TOOL,
    'Searches the clinical guidelines. One subject per call, in a few words, such as "metformin renal dosing eGFR 45". Returns the best passages as <source id title section>; cite them by id.',
    { query: z.string().min(1).max(500) },
    async ({ query }, { signal }) => {
      const hits = await (await guidelines).search(query, { limit: RESULTS, signal });
      return hits.length > 0
        ? formatSources(hits.map((hit) => hit.chunk))
        : 'No passage matches. Try other words.';
    },
    { annotations: { readOnlyHint: true, openWorldHint: false } },
  );
  return createSdkMcpServer({ name: 'briefing', version: '1.0.0', tools: [search] });
}
