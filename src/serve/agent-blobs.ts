import type { Agent, AgentContext, BlobWriter, Turn } from '../event/types.ts';
import type { BlobStore } from '../task/blob-store.ts';
import type { AgentModule } from './types.ts';

/** The agents of the modules, each with `ctx.blobs` of the server, or else of its module. */
export const agentsWithBlobs = (
  modules: Readonly<Record<string, AgentModule>>,
  blobs: BlobStore | undefined,
): Readonly<Record<string, Agent>> =>
  Object.fromEntries(
    Object.entries(modules).map(([name, { default: agent, options }]) => [
      name,
      withBlobs(agent, blobs ?? options?.blobs),
    ]),
  );

/** Gives the agent `ctx.blobs`, which stores blobs of its task and owner. */
function withBlobs(agent: Agent, store: BlobStore | undefined): Agent {
  if (!store) return agent;
  const writing = (turn: Turn, ctx: AgentContext): ReturnType<Agent> => {
    const { task, owner } = turn;
    const blobs: BlobWriter = {
      async put({ mediaType, filename }, bytes, { signal = ctx.signal } = {}) {
        const entry = {
          task,
          mediaType,
          ...(owner !== undefined && { owner }),
          ...(filename !== undefined && { filename }),
        };
        const stored = await store.put(entry, bytes, { signal });
        return { id: stored.id, bytes: stored.bytes, url: `/blobs/${stored.id}` };
      },
    };
    // Each run has its own context. A copy would create its signal, which most agents never read.
    return agent(turn, Object.assign(ctx, { blobs }));
  };
  // Read each time: a module that is loaded again may have other flags.
  return Object.defineProperties(writing, {
    resumable: { get: () => agent.resumable },
    continues: { get: () => agent.continues },
  });
}
