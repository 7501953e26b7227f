// The configuration of `scripts/mcp-e2e.ts`: the end-to-end suite of the official SDK, whose
// `wire()` is replaced, so that our bridge stands between its client and its server. It runs with
// the vitest of that checkout, and changes no file there.
import { fileURLToPath } from 'node:url';
import { basename, dirname, join } from 'node:path';

const root = process.env['DUOLANE_SDK_E2E'];
if (root === undefined) throw new Error('missing DUOLANE_SDK_E2E; run scripts/mcp-e2e.ts');

const HELPERS = join(root, 'helpers/index.ts');
const REPLACED = '\0duolane-bridged-helpers';
const WIRE = join(dirname(fileURLToPath(import.meta.url)), 'bridged-wire.ts');

const { default: base } = (await import(join(root, 'vitest.config.js'))) as {
  default: { plugins?: unknown[]; test?: object };
};

/** Whether a module of the suite imports its helpers, which export `wire()`. */
const importsHelpers = (id: string, importer: string | undefined): boolean =>
  id.endsWith('/helpers/index') && basename(dirname(importer ?? '')) === 'scenarios';

const replaceWire = {
  name: 'duolane-bridged-wire',
  enforce: 'pre',
  async resolveId(
    this: { resolve: (id: string, importer: string) => Promise<unknown> },
    id: string,
    importer: string | undefined,
  ) {
    if (importsHelpers(id, importer)) return REPLACED;
    // The packages of the SDK are resolved as its own helpers resolve them.
    if (importer === REPLACED && id.startsWith('@')) return this.resolve(id, HELPERS);
    return undefined;
  },
  load(id: string) {
    if (id !== REPLACED) return undefined;
    const path = (file: string): string => JSON.stringify(join(root, file));
    return `
      import * as client from '@modelcontextprotocol/client';
      import * as server from '@modelcontextprotocol/server';
      import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
      import * as helpers from ${JSON.stringify(HELPERS)};
      import { startLegacySseHost } from ${path('helpers/sse-host.ts')};
      import { sniffTransport } from ${path('helpers/wire-sniffer.ts')};
      import { bridgedWire } from ${JSON.stringify(WIRE)};
      export * from ${JSON.stringify(HELPERS)};
      export const wire = bridgedWire({
        ...client, ...server, StdioServerTransport, startLegacySseHost, sniffTransport,
        hostPerSession: helpers.hostPerSession, hostStateless: helpers.hostStateless,
      });`;
  },
};

const config: object = { ...base, plugins: [replaceWire, ...(base.plugins ?? [])] };

export default config;
