//! Operations on the devices of the host wire.

use std::sync::Arc;

use countersign_core::event::Device;
use countersign_core::{Caller, DeviceId, PutDevice};
use countersign_daemon::{Service, new_device_id};
use countersign_protocol as wire;

use super::Result;
use crate::convert;

pub(crate) async fn list(service: &Service, caller: &Caller) -> Result<Vec<Arc<Device>>> {
    caller.refuse_agents()?;
    Ok(service.devices(caller).await?)
}

pub(crate) async fn register(
    service: &Service,
    caller: Caller,
    params: wire::RegisterDeviceParams,
) -> Result<Arc<Device>> {
    let id = params.id.filter(|id| !id.is_empty());
    let input = PutDevice {
        caller,
        id: id.map_or_else(new_device_id, DeviceId::new),
        name: Some(params.name),
        platform: Some(params.platform),
        capabilities: Some(params.capabilities),
        status: params.status,
        metadata: Some(convert::json(params.metadata)),
    };
    Ok(service.register_device(input).await?)
}

pub(crate) async fn update(
    service: &Service,
    caller: Caller,
    params: wire::UpdateDeviceParams,
) -> Result<Arc<Device>> {
    let input = PutDevice {
        caller,
        id: DeviceId::new(params.device_id),
        name: params.name,
        platform: params.platform,
        capabilities: params.capabilities,
        status: params.status,
        metadata: params.metadata.map(convert::json),
    };
    Ok(service.update_device(input).await?)
}
