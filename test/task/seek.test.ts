import { memoryDatabase } from '../../src/task/store/index.ts';
import { seekContract } from '../contracts/seek.contract.ts';
import { temporarySqlite } from './temporary-sqlite.ts';

seekContract('memory', async () => memoryDatabase());
seekContract('sqlite', temporarySqlite);
