import type { Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';

const warn = (message: string, data?: JsonObject): void =>
  process.emitWarning(data ? `${message} ${JSON.stringify(data)}` : message, { code: 'DUOLANE' });

/** Without a logger of the app: warnings go where Node's own go, the rest nowhere. */
export const defaultLogger: Logger = { debug: () => {}, info: () => {}, warn, error: warn };
