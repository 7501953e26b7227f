/** Files that are mutated together, and the unit tests that should notice. */
export interface MutationGroup {
  /** Files or folders below `src/`. */
  readonly files: readonly string[];
  /** Folders and tests below `src/` that are run; those of `files` by default. */
  readonly tests?: readonly string[];
}

export const GROUPS: Readonly<Record<string, MutationGroup>> = {
  event: { files: ['event'] },
  wire: { files: ['wire'] },
  host: {
    files: ['host/session/stdin-gate.ts', 'host/session/turn-tracker.ts'],
    tests: ['host/session/stdin-gate.test.ts', 'host/session/turn-tracker.test.ts'],
  },
  task: {
    files: [
      'task/store/task-rules.ts',
      'task/store/store-rules.ts',
      'task/store/run-queue.ts',
      'task/store/line-codec.ts',
      'task/store/compaction.ts',
      'task/store/listed-change.ts',
      'task/store/stored-values.ts',
    ],
    tests: ['task/store', 'task/memory', 'task/log'],
  },
  codecs: {
    files: ['a2a/protocol', 'mcp/grpc/codec', 'mcp/sources/input-codec.ts'],
    tests: ['a2a', 'mcp/grpc', 'mcp/sources'],
  },
};
