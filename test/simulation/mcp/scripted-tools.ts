import { asObject } from '../../../src/json.ts';
import { createRegistry } from '../../../src/mcp/registry/registry.ts';
import { tool } from '../../../src/mcp/registry/tool.ts';
import type { ToolContext, ToolRegistry } from '../../../src/mcp/types.ts';
import { pause } from '../tasks/agents.ts';
import type { World } from '../world.ts';
import type { McpLedger } from './mcp-ledger.ts';
import type { CallPlan } from './plan.ts';

const NEVER_MS = 0x7fffffff;

const SCHEMA = { type: 'object', properties: { text: { type: 'string' } } };

/** The tools of the server: each call says what its handler does. */
export function scriptedTools(world: World, ledger: McpLedger): ToolRegistry {
  return createRegistry({
    name: 'tools',
    tools: [
      tool('run', 'runs', { type: 'object' } as const, (args, context) =>
        runCall(world, ledger, args as unknown as CallPlan, context),
      ),
    ],
  });
}

/** Changes the list of tools. */
export function changeTools(registry: ToolRegistry, nth: number): void {
  registry.register(tool(`extra${nth}`, 'does nothing', { type: 'object' } as const, () => 'done'));
}

async function runCall(
  world: World,
  ledger: McpLedger,
  { n, act, ms, progress, logs, asks }: CallPlan,
  context: ToolContext,
): Promise<string> {
  const run = ledger.begins(n, asks, context.signal);
  try {
    for (let each = 1; each <= progress; each++) {
      const reported = context.progress(each, progress, `p ${n} ${each}`);
      // A handler that takes no time does not wait for its reports either.
      if (ms > 0) await reported.then(() => pause(ms / 10, context.signal));
    }
    for (let each = 1; each <= logs; each++) {
      const params = { level: 'info', data: `l ${n} ${each}` };
      await context.sendNotification({ method: 'notifications/message', params });
    }
    for (let each = 1; each <= asks; each++) {
      const id = `q${each}`;
      const message = `q ${n} ${each}`;
      const { content } = await context.ask({ id, kind: 'question', message, schema: SCHEMA });
      if (asObject(content)['text'] !== `a ${n} ${each}`)
        world.broken('an answer belongs to its question', `${message}: ${JSON.stringify(content)}`);
    }
    if (act === 'hang') await pause(NEVER_MS, context.signal);
    if (ms > 0) await pause(ms, act === 'deaf' ? undefined : context.signal);
    if (act === 'throw') throw new Error('as planned');
    return `result ${n}`;
  } finally {
    ledger.active.delete(run);
  }
}
