import { parseDecision } from '../../event/text/parse-decision.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { stripControlCharacters } from './entry-printer.ts';

/** One line of a person; undefined at the end of the input. */
export type Read = (prompt: string) => Promise<string | undefined>;

/**
 * The fields of a form, one line each; a line that does not fit is asked for again, and an empty one
 * leaves out a field that may be left out. Undefined at the end of the input: nothing was answered.
 */
export async function askFields(schema: JsonObject, read: Read): Promise<JsonObject | undefined> {
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  const content: [string, unknown][] = [];
  for (const [name, property] of Object.entries(properties)) {
    const field = isObject(property) ? property : {};
    const optional = !required.includes(name);
    for (let again = ''; ;) {
      const said = await read(`${again}${promptOf(name, field, optional)}`);
      if (said === undefined) return undefined;
      const text = said.trim();
      if (text === '' && optional) break;
      const value = valueOf(field, text);
      if (value !== undefined) {
        content.push([name, value]);
        break;
      }
      again = 'That does not fit. ';
    }
  }
  return Object.fromEntries(content);
}

function promptOf(
  name: string,
  { title, type, enum: choices }: JsonObject,
  optional: boolean,
): string {
  const kind = Array.isArray(choices)
    ? choices.join(' | ')
    : type === 'boolean'
      ? 'yes | no'
      : type;
  const hint = [kind, optional && 'may be empty'].filter(Boolean).join(', ');
  return stripControlCharacters(
    `${typeof title === 'string' ? title : name}${hint ? ` (${hint})` : ''} > `,
  );
}

/** Undefined for what does not fit. */
function valueOf({ type, enum: choices }: JsonObject, text: string): unknown {
  if (Array.isArray(choices)) return choices.find((choice) => String(choice) === text);
  switch (type) {
    case 'boolean': {
      const decision = parseDecision(text);
      return decision && decision === 'accept';
    }
    case 'integer':
    case 'number': {
      const value = text === '' ? Number.NaN : Number(text);
      return Number.isFinite(value) && (type === 'number' || Number.isInteger(value))
        ? value
        : undefined;
    }
    case 'array':
    case 'object':
      return json(text);
    default:
      return text === '' ? undefined : text;
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON: it does not fit, and is asked for again.
    return undefined;
  }
}
