import type { Operation, Version } from './dialect.ts';

/**
 * The JSON-RPC method of each operation. No name is in both versions, so a name decides the
 * version.
 */
export const METHOD_NAMES: Readonly<Record<Version, Readonly<Partial<Record<Operation, string>>>>> =
  {
    '1.0': {
      send: 'SendMessage',
      stream: 'SendStreamingMessage',
      get: 'GetTask',
      list: 'ListTasks',
      cancel: 'CancelTask',
      subscribe: 'SubscribeToTask',
      createPush: 'CreateTaskPushNotificationConfig',
      getPush: 'GetTaskPushNotificationConfig',
      listPush: 'ListTaskPushNotificationConfigs',
      deletePush: 'DeleteTaskPushNotificationConfig',
      extendedCard: 'GetExtendedAgentCard',
    },
    '0.3': {
      send: 'message/send',
      stream: 'message/stream',
      get: 'tasks/get',
      cancel: 'tasks/cancel',
      subscribe: 'tasks/resubscribe',
      createPush: 'tasks/pushNotificationConfig/set',
      getPush: 'tasks/pushNotificationConfig/get',
      listPush: 'tasks/pushNotificationConfig/list',
      deletePush: 'tasks/pushNotificationConfig/delete',
      extendedCard: 'agent/getAuthenticatedExtendedCard',
    },
  };
