import type { AgentEvent, Part } from 'duolane/event';

/** A status that says that the request has arrived: yield it before the first model call. */
export const acknowledge = (message: string = 'Analysing your request...'): AgentEvent => ({
  type: 'status',
  message,
});

export const textPart = (text: string, mediaType?: string): Part => ({
  text,
  ...(mediaType !== undefined && { mediaType }),
});

/** A text part with JSON in it, for readers that do not know data parts. */
export const jsonTextPart = (value: unknown): Part =>
  textPart(JSON.stringify(value), 'application/json');

export const dataPart = (data: unknown): Part => ({ data });

/** A data part that points to a file by its URL and describes the table in it. */
export const filePart = (
  uri: string,
  resourceType: string,
  table: { readonly rowCount: number; readonly columns: readonly string[] },
): Part =>
  dataPart({
    type: 'artifact',
    uri,
    resource_type: resourceType,
    metadata: { row_count: table.rowCount, columns: table.columns },
  });
