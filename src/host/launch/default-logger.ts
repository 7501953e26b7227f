import type { Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';

const warn = (message: string, data?: JsonObject): void =>
  process.emitWarning(data ? `${message} ${JSON.stringify(data)}` : message, { code: 'DUOLANE' });

/**
 * The logger of a session without one: warnings and errors become warnings of Node.js, the rest is
 * dropped.
 */
export const defaultLogger: Logger = { debug: () => {}, info: () => {}, warn, error: warn };
