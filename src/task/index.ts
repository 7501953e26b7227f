export {
  type Blob,
  type BlobInfo,
  type BlobRange,
  type BlobRules,
  type BlobStore,
  type FileBlobOptions,
  fileBlobs,
} from './blob-store.ts';
export {
  artifact,
  artifactChunks,
  type ArtifactOptions,
  withArtifactPlan,
} from './artifact-builders.ts';
export { memoryLog, type MemoryLogOptions } from './memory/memory-log.ts';
export { type PipelineStep, runSteps } from './pipeline-steps.ts';
export { createRunner } from './run/runner.ts';
export { sqliteLog, type SqliteLogOptions } from './sqlite/sqlite-log.ts';
export type * from './types.ts';
