export { buildEnv, type EnvOptions } from './env.ts';
export { memoryTransport, type MemoryPeer } from './memory-transport.ts';
export { spawnProcess } from './spawn.ts';
export type { Exit, ProcessOptions, ProcessTransport, Transport } from './types.ts';
