import { closeSync, mkdirSync, openSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { DuolaneError, errorMessage } from '../../errors.ts';
import { type Database, openDatabase } from './driver.ts';

/**
 * Locks a database file for this process. The lock is SQLite's exclusive lock on a file beside the
 * database. The operating system releases it when the process exits: after kill -9 there is nothing
 * to clean up, and no process id that may be reused. The database itself names the holder, for the
 * message of a process that finds it locked.
 */
export function lockFile(file: string): Database {
  const lock = openBeside(file);
  try {
    lock.exec('pragma busy_timeout = 0; begin exclusive');
    return lock;
  } catch (error) {
    lock.close();
    if (!isBusy(error)) throw unopened(file, error);
    throw new DuolaneError(
      'conflict',
      `cannot open ${file}: it is in use by ${holderOf(file)}; stop that process, or use another file`,
      { cause: error },
    );
  }
}

function openBeside(file: string): Database {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    // SQLite would make new files readable for all users; -wal and -shm get the mode of the
    // database.
    for (const each of [file, `${file}-lock`]) closeSync(openSync(each, 'a', 0o600));
    return openDatabase(`${file}-lock`);
  } catch (error) {
    throw unopened(file, error);
  }
}

/** Whether the error is SQLITE_BUSY (the low byte of its extended codes): the lock is taken. */
function isBusy(error: unknown): boolean {
  const { errcode, message } = error as { readonly errcode?: unknown; readonly message?: unknown };
  if (typeof errcode === 'number') return (errcode & 0xff) === 5;
  return /database is locked/.test(String(message));
}

function unopened(file: string, cause: unknown): DuolaneError {
  if (cause instanceof DuolaneError) return cause;
  const message = `cannot open ${file}: ${errorMessage(cause)}; it, its folder and ${file}-lock must be writable`;
  return new DuolaneError('server', message, { cause });
}

/** Writes into the database which process has it open. */
export function writeHolder(db: Database): void {
  db.exec('create table if not exists holder(pid integer, host text, since text)');
  db.exec('delete from holder');
  const since = new Date().toISOString();
  db.prepare('insert into holder values(?, ?, ?)').run(process.pid, hostname(), since);
}

function holderOf(file: string): string {
  try {
    const db = openDatabase(file, { readOnly: true });
    const holder = db.prepare('select pid, host, since from holder').get();
    db.close();
    if (holder) return `process ${holder['pid']} on ${holder['host']} since ${holder['since']}`;
  } catch {
    // The holder may be creating the database just now.
  }
  return 'another process';
}
