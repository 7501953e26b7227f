import { asObject, isObject, omitUndefined, type JsonObject } from '../../json.ts';
import { CLIENT_10, decodePush03, type ClientDialect } from '../protocol/client-dialect.ts';
import { resultEncoder, type Dialect, type VersionRules } from '../protocol/dialect.ts';
import { REASONS } from '../protocol/a2a-errors.ts';
import type {
  A2AArtifact,
  A2AMessage,
  A2APart,
  A2AStatus,
  A2AStreamEvent,
  A2ATask,
  PushConfig,
} from '../protocol/model.ts';

/** A push config that may have no id yet. */
type NewPushConfig = Omit<PushConfig, 'id'> & { readonly id?: string };

/**
 * One of the two JSON forms of A2A 0.3: that of its JSON-RPC binding, and that of its protobuf,
 * which REST and gRPC use. The encoders get members that are encoded already.
 */
export interface Form03 {
  readonly text: (text: string) => JsonObject;
  readonly data: (data: JsonObject) => JsonObject;
  readonly file: (part: A2APart) => JsonObject;
  readonly message: (
    message: Omit<A2AMessage, 'parts'>,
    parts: readonly JsonObject[],
  ) => JsonObject;
  readonly status: (status: A2AStatus, message: JsonObject | undefined) => JsonObject;
  readonly task: (task: JsonObject) => JsonObject;
  readonly event: (name: EventName, object: JsonObject, last: boolean) => JsonObject;
  readonly push: (config: NewPushConfig, pushNotificationConfig: JsonObject) => JsonObject;
  readonly pushList: (configs: readonly unknown[]) => unknown;
  /** The result of an operation that returns nothing. */
  readonly nothing: JsonObject | null;
  /** The member of a message's configuration that has its push config. */
  readonly pushMember: string;
  readonly decode: Dialect['decode'];
  readonly decodeEvent: ClientDialect['decodeEvent'];
}

type EventName = 'task' | 'message' | 'statusUpdate' | 'artifactUpdate';

const RULES_03: VersionRules = {
  version: '0.3',
  extensionHeader: 'x-a2a-extensions',
  mediaType: 'application/json',
  missingExtension: 'UNSUPPORTED_OPERATION',
  missingCard: 'EXTENDED_AGENT_CARD_NOT_CONFIGURED',
  extendedCard: 'hybrid',
  subscribesEnded: true,
  streamsErrors: true,
  pushesTasks: true,
  defaultPushId: 'default',
  errorData: ({ metadata }) => metadata,
  restError: ({ reason, message, metadata }) => ({
    code: REASONS[reason].rpc,
    message,
    ...(metadata && { data: metadata }),
  }),
};

/** The dialects of a server and of a client in one form of 0.3. */
export function dialects03(form: Form03): {
  readonly server: Dialect;
  readonly client: ClientDialect;
} {
  const part = (given: A2APart): JsonObject => {
    const { text, data, metadata } = given;
    const content =
      text !== undefined
        ? form.text(text)
        : data === undefined
          ? form.file(given)
          : // 0.3 allows only objects as data, so any other value is wrapped in one.
            form.data(isObject(data) ? data : { value: data });
    return metadata ? { ...content, metadata } : content;
  };
  const message = ({ parts, ...rest }: A2AMessage): JsonObject =>
    form.message(rest, parts.map(part));
  const status = (given: A2AStatus): JsonObject =>
    form.status(given, given.message && message(given.message));
  const artifact = ({ parts, ...rest }: A2AArtifact): JsonObject => ({
    ...rest,
    parts: parts.map(part),
  });
  const task = ({ status: given, artifacts, history, ...rest }: A2ATask): JsonObject =>
    form.task({
      ...rest,
      status: status(given),
      ...(artifacts && { artifacts: artifacts.map(artifact) }),
      ...(history && { history: history.map(message) }),
    });
  const push = (config: NewPushConfig): JsonObject => form.push(config, encodePush(config));
  const encodeEvent = (event: A2AStreamEvent, last: boolean): JsonObject => {
    if ('task' in event) return form.event('task', task(event.task), last);
    if ('message' in event) return form.event('message', message(event.message), last);
    if ('statusUpdate' in event) {
      const { status: given, ...rest } = event.statusUpdate;
      return form.event('statusUpdate', { ...rest, status: status(given) }, last);
    }
    const { artifact: given, ...rest } = event.artifactUpdate;
    return form.event('artifactUpdate', { ...rest, artifact: artifact(given) }, last);
  };
  const { pushList, nothing, decode, decodeEvent } = form;
  const encode = resultEncoder({ task, event: encodeEvent, push, pushList, nothing });
  return {
    server: { ...RULES_03, decode, encode, encodeEvent },
    client: {
      ...CLIENT_10,
      version: RULES_03.version,
      extensionHeader: RULES_03.extensionHeader,
      hasTenants: false,
      restPaths: { prefix: '/v1', extendedCard: 'card' },
      decodeEvent,
      encode(operation, params) {
        switch (operation) {
          case 'send':
          case 'stream':
            return {
              ...params,
              message: message(params['message'] as A2AMessage),
              configuration: encodeConfiguration(params['configuration'], form.pushMember),
            };
          case 'createPush':
            return push(params as unknown as PushConfig);
          case 'getPush':
          case 'listPush':
          case 'deletePush':
            return omitUndefined({ id: params['taskId'], pushNotificationConfigId: params['id'] });
          default:
            return params;
        }
      },
    },
  };
}

const encodePush = ({ id, url, token, authentication }: NewPushConfig): JsonObject =>
  omitUndefined<JsonObject>({
    id,
    url,
    token,
    authentication:
      authentication &&
      omitUndefined<JsonObject>({
        schemes: [authentication.scheme],
        credentials: authentication.credentials,
      }),
  });

function encodeConfiguration(given: unknown, pushMember: string): JsonObject {
  const { returnImmediately, taskPushNotificationConfig: push, ...others } = asObject(given);
  return {
    ...others,
    blocking: returnImmediately !== true,
    ...(isObject(push) && { [pushMember]: encodePush(push as unknown as PushConfig) }),
  };
}

/** Decodes the parameters of `send` and `stream`. */
export const decodeSend03 = (
  { message, configuration, ...rest }: JsonObject,
  decodeMessage: (message: JsonObject) => JsonObject,
): JsonObject => ({
  ...rest,
  message: isObject(message) ? decodeMessage(message) : message,
  ...(isObject(configuration) && { configuration: decodeConfiguration(configuration) }),
});

function decodeConfiguration(configuration: JsonObject): JsonObject {
  const { blocking, pushNotificationConfig: push, ...rest } = configuration;
  return {
    ...rest,
    ...(blocking === false && { returnImmediately: true }),
    ...omitUndefined({ taskPushNotificationConfig: isObject(push) ? decodePush03(push) : push }),
  };
}
