// node dist/examples/adapters/main.js <framework>: serves its agent over A2A, sends a question and
// prints the text.
import { register } from 'node:module';
import { connectA2A } from 'duolane/a2a';
import { type AgentModule, toA2A } from 'duolane/serve';
import { memoryLog } from 'duolane/task';
import { startModel } from './model.ts';

const [framework = 'ai-sdk'] = process.argv.slice(2);
await using offline = await startModel();
const url = process.env['MODEL_URL'] ?? offline.url;
Object.assign(process.env, {
  OPENAI_BASE_URL: `${url}/v1`,
  OPENAI_API_KEY: 'offline',
  OPENAI_MODEL: 'offline',
  ANTHROPIC_BASE_URL: url,
  ANTHROPIC_API_KEY: 'offline',
  GOOGLE_GEMINI_BASE_URL: url,
  GEMINI_API_KEY: 'offline',
  MASTRA_TELEMETRY_DISABLED: '1',
});
if (framework !== 'cli') await findFrameworkIn(framework);

const { default: agent } = (await import(`./${framework}/agent.js`)) as AgentModule;
await using served = await toA2A(agent, {
  port: Number(process.env['PORT'] ?? 8003),
  log: memoryLog(),
  chars: 1,
});
console.log(`serving ${framework} at ${served.url}`);
const client = await connectA2A(served.url);
for await (const event of client.stream('What is the weather in Paris?')) {
  const { state, message } = 'statusUpdate' in event ? event.statusUpdate.status : {};
  const words = message?.parts.map(({ text = '' }) => text).join('') ?? '';
  if (state !== undefined && words !== '') console.log(`${state}: ${words}`);
}

/** Loads a framework. In your app it is in node_modules; here it is a pinned peer of the tests. */
async function findFrameworkIn(peer: string): Promise<void> {
  const root = new URL('../../../', import.meta.url);
  const { ensurePeer } = (await import(new URL('scripts/peers.mjs', root).href)) as {
    ensurePeer: (name: string) => Promise<{ readonly reason?: string }>;
  };
  const { reason } = await ensurePeer(peer);
  if (reason !== undefined) throw new Error(reason);
  const parentURL = new URL(`peers/${peer}/node_modules/any.js`, root).href;
  const hook = `export const resolve = (specifier, context, next) => next(specifier, context)
    .catch(() => next(specifier, { ...context, parentURL: ${JSON.stringify(parentURL)} }));`;
  register(`data:text/javascript,${encodeURIComponent(hook)}`);
}
