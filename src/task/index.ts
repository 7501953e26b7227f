export {
  type Blob,
  type BlobInfo,
  type BlobRange,
  type BlobStore,
  type FileBlobOptions,
  fileBlobs,
} from './blob-store.ts';
export {
  acknowledge,
  artifact,
  artifactChunks,
  type ArtifactOptions,
  dataPart,
  filePart,
  jsonTextPart,
  runSteps,
  type PipelineStep,
  textPart,
  withArtifactPlan,
} from './artifact-builders.ts';
export {
  memoryDatabase,
  type MemoryDatabaseOptions,
  memoryLog,
  type MemoryLogOptions,
} from './memory/memory-log.ts';
export { openLog } from './log/task-log.ts';
export { createRunner } from './run/runner.ts';
export { sqliteDatabase, sqliteLog, type SqliteLogOptions } from './sqlite/sqlite-log.ts';
export { STORE_METHODS, storeFromCalls } from './store/store.ts';
export type {
  AppendRequest,
  ClaimRow,
  Commit,
  DamagedTask,
  StorePage,
  PageRequest,
  ListPosition,
  ReadResult,
  EntryRow,
  Store,
  StoreCalls,
  StoreMethods,
  SubmitRequest,
  TaskFilter,
} from './store/store.ts';
export type * from './types.ts';
