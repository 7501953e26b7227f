import type { Command } from './command.ts';

/** A command in the overview. */
export interface CommandEntry {
  /** One line, without a full stop. */
  readonly summary: string;
  /** Loads the command when it is called, so that the overview and the version start fast. */
  readonly load: () => Promise<Command>;
}

/** Every command, in the order of the overview. */
export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  demo: {
    summary: 'Run a sample agent in the terminal, offline and without a key',
    load: async () => (await import('./commands/demo/demo.ts')).demo,
  },
  serve: {
    summary: 'Serve agents over A2A 0.3 and 1.0, with a page that shows both lanes',
    load: async () => (await import('./commands/serve.ts')).serveCommand,
  },
  chat: {
    summary: 'Chat with an agent: any A2A server, a module, or a sample',
    load: async () => (await import('./commands/chat.ts')).chat,
  },
  wrap: {
    summary: 'Watch or record both lanes between a host and its stream-json CLI',
    load: async () => (await import('./commands/wrap.ts')).wrap,
  },
  doctor: {
    summary: 'Check this installation, a recorded trace, or a running A2A server',
    load: async () => (await import('./commands/doctor/doctor.ts')).doctor,
  },
  eval: {
    summary: 'Run cases against an agent, score its streams, export them as traces',
    load: async () => (await import('./commands/eval.ts')).evalCommand,
  },
  replay: {
    summary: 'Replay a recorded trace, 1 to 50 times as fast',
    load: async () => (await import('./commands/replay.ts')).replayCommand,
  },
  tools: {
    summary: 'List and call the tools of an MCP server',
    load: async () => (await import('./commands/tools.ts')).tools,
  },
  bridge: {
    summary: 'Offer an MCP server over another transport: stdio, HTTP, SSE, gRPC',
    load: async () => (await import('./commands/bridge.ts')).bridge,
  },
  new: {
    summary: 'Create a small agent with one tool and one test',
    load: async () => (await import('./commands/new/new-agent.ts')).newAgent,
  },
  completion: {
    summary: 'Print the completion script of your shell',
    load: async () => (await import('./commands/completion.ts')).completion,
  },
};
