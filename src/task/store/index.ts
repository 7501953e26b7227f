export { decodeEntry, encodeEntry } from '../../event/entry-codec.ts';
export { openLog } from '../log/task-log.ts';
export { memoryDatabase, type MemoryDatabaseOptions } from '../memory/memory-log.ts';
export { sqliteDatabase } from '../sqlite/sqlite-log.ts';
export { encodeEvent, numberLine } from './line-codec.ts';
export type { StorageEngine, TaskHead, TaskStorage, TurnKey } from './storage-engine.ts';
export { StoreRules } from './store-rules.ts';
export { STORE_METHODS, storeFromCalls } from './store.ts';
export type {
  AppendRequest,
  ClaimRow,
  Commit,
  DamagedTask,
  EntryRow,
  ListPosition,
  PageRequest,
  ReadResult,
  Store,
  StoreCalls,
  StoreMethods,
  StoredValueChange,
  StorePage,
  SubmitRequest,
} from './store.ts';
export { type RuleClocks, TaskRules } from './task-rules.ts';
