import { memoryDatabase } from '../src/task/index.ts';
import { taskLogContract } from './task-log.contract.ts';
import { taskRunsContract } from './task-runs.contract.ts';
import { temporarySqlite } from './task-sqlite.ts';

taskLogContract('memory', async () => memoryDatabase());
taskLogContract('sqlite', temporarySqlite);

taskRunsContract('memory', async () => memoryDatabase());
taskRunsContract('memory, every wait by restart', async () => memoryDatabase(), { parkMs: 0 });
taskRunsContract('sqlite', temporarySqlite);
