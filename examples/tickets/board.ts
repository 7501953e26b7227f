import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DuolaneError } from 'duolane';
import { openDatabase } from '../support/sqlite.ts';
import type { Ticket } from './ticket.ts';

export interface StoredTicket extends Ticket {
  /** `TKT-42`. */
  readonly id: string;
}

/** Stores tickets. A change is on disk when the call returns. */
export interface Board extends AsyncDisposable {
  /**
   * Creates a ticket once per `key`: the same key and ticket return the existing ticket, so that a
   * repeated call after a crash creates no second one. Another ticket with a used key is a
   * `conflict`.
   */
  create(key: string, ticket: Ticket): StoredTicket;
  /** Oldest first. */
  list(): readonly StoredTicket[];
}

/** The number of the first ticket of a new board. */
const FIRST_NUMBER = 42;

const SCHEMA = `
pragma journal_mode = wal;
pragma busy_timeout = 5000;
create table if not exists tickets (
  number integer primary key,
  key text not null unique,
  title text not null,
  description text not null,
  kind text not null
) strict;`;

/**
 * Opens the board in a SQLite file, which it creates with its folder. Several processes may share
 * it.
 */
export function openBoard(file: string): Board {
  mkdirSync(dirname(file), { recursive: true });
  const database = openDatabase(file);
  database.exec(SCHEMA);
  const insert = database.prepare(
    `insert into tickets (number, key, title, description, kind)
     select coalesce(max(number) + 1, ${FIRST_NUMBER}), ?, ?, ?, ? from tickets where true
     on conflict (key) do nothing`,
  );
  const byKey = database.prepare('select * from tickets where key = ?');
  const all = database.prepare('select * from tickets order by number');
  let open = true;
  return {
    create(key, ticket) {
      const { title, description, kind } = ticket;
      insert.run(key, title, description, kind);
      const stored = toTicket(byKey.get(key));
      if (stored.title !== title || stored.description !== description || stored.kind !== kind)
        throw new DuolaneError(
          'conflict',
          `this call has already created ${stored.id} with another content`,
        );
      return stored;
    },
    list: () => all.all().map(toTicket),
    async [Symbol.asyncDispose]() {
      if (open) database.close();
      open = false;
    },
  };
}

function toTicket(row: Readonly<Record<string, unknown>> | undefined): StoredTicket {
  const { number, title, description, kind } = row as unknown as Ticket & { number: number };
  return { id: `TKT-${number}`, title, description, kind };
}
