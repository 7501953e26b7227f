import type { Logger } from '../event/types.ts';
import type { JsonObject } from '../json.ts';

/** The default logger: warnings and errors become warnings of the process, printed to stderr. */
export const processWarnings: Logger = {
  debug() {},
  info() {},
  warn: emit,
  error: emit,
};

function emit(message: string, data?: JsonObject): void {
  process.emitWarning(data ? `${message} ${JSON.stringify(data)}` : message, 'DuolaneWarning');
}

/**
 * Calls every listener. If one throws, a warning reports it and the others are still called: the
 * commit is durable, and must not look failed to its writer.
 */
export function notifyAll<T>(listeners: Iterable<(value: T) => void>, value: T): void {
  for (const listener of listeners) {
    try {
      listener(value);
    } catch (error) {
      emit(`a listener of the task store threw: ${String(error)}`);
    }
  }
}
