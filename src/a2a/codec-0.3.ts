import { isObject, type JsonObject } from '../json.ts';
import {
  INTERRUPTED,
  TERMINAL,
  type A2AArtifact,
  type A2AMessage,
  type A2APart,
  type A2AState,
  type A2AStatus,
  type A2ATask,
  type StreamEvent,
} from './model.ts';

/** The JSON-RPC dialect of A2A 0.3, as a translation of the 1.0 model at the edge. */
export function encodeEvent03(event: StreamEvent): JsonObject {
  if ('task' in event) return encodeTask03(event.task);
  if ('message' in event) return encodeMessage03(event.message);
  if ('statusUpdate' in event) {
    const { status, ...rest } = event.statusUpdate;
    // A stream that closes must say so, also when it closes to wait for a person.
    const final = TERMINAL.has(status.state) || INTERRUPTED.has(status.state);
    return { kind: 'status-update', ...rest, status: encodeStatus03(status), final };
  }
  const { artifact, append = false, lastChunk = false, ...rest } = event.artifactUpdate;
  return {
    kind: 'artifact-update',
    ...rest,
    artifact: encodeArtifact03(artifact),
    append,
    lastChunk,
  };
}

export const encodeTask03 = ({ status, artifacts, history, ...rest }: A2ATask): JsonObject => ({
  kind: 'task',
  ...rest,
  status: encodeStatus03(status),
  ...(artifacts && { artifacts: artifacts.map(encodeArtifact03) }),
  ...(history && { history: history.map(encodeMessage03) }),
});

const encodeMessage03 = ({ role, parts, ...rest }: A2AMessage): JsonObject => ({
  kind: 'message',
  ...rest,
  role: role === 'ROLE_USER' ? 'user' : 'agent',
  parts: parts.map(encodePart03),
});

const encodeStatus03 = ({ state, message, timestamp }: A2AStatus): JsonObject => ({
  state: encodeState03(state),
  ...(message && { message: encodeMessage03(message) }),
  timestamp,
});

export const encodeState03 = (state: A2AState): string =>
  state.slice('TASK_STATE_'.length).toLowerCase().replaceAll('_', '-');

const encodeArtifact03 = ({ parts, ...rest }: A2AArtifact): JsonObject => ({
  ...rest,
  parts: parts.map(encodePart03),
});

function encodePart03(part: A2APart): JsonObject {
  const metadata = part.metadata && { metadata: part.metadata };
  if (part.text !== undefined) return { kind: 'text', text: part.text, ...metadata };
  if (part.data !== undefined) {
    // 0.3 allows only objects here.
    return {
      kind: 'data',
      data: isObject(part.data) ? part.data : { value: part.data },
      ...metadata,
    };
  }
  const file = {
    ...(part.url === undefined ? { bytes: part.raw ?? '' } : { uri: part.url }),
    ...(part.filename !== undefined && { name: part.filename }),
    ...(part.mediaType !== undefined && { mimeType: part.mediaType }),
  };
  return { kind: 'file', file, ...metadata };
}

/** A message of a 0.3 client in the spelling of 1.0; what it lacks is found by the same checks. */
export function decodeMessage03(message: JsonObject): JsonObject {
  const { kind: _, role, parts, ...rest } = message;
  return {
    ...rest,
    role: role === 'agent' ? 'ROLE_AGENT' : 'ROLE_USER',
    parts: Array.isArray(parts) ? parts.map(decodePart03) : parts,
  };
}

function decodePart03(part: unknown): unknown {
  if (!isObject(part)) return part;
  const { kind, file, ...rest } = part;
  if (kind !== 'file' || !isObject(file)) return rest;
  return {
    ...(file['uri'] === undefined ? { raw: file['bytes'] } : { url: file['uri'] }),
    ...(file['name'] !== undefined && { filename: file['name'] }),
    ...(file['mimeType'] !== undefined && { mediaType: file['mimeType'] }),
    ...rest,
  };
}
